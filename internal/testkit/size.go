package testkit

import (
	"fmt"
	"os"
	"testing"
)

const (
	// sizeVariable says that sweeps are to be as large as they get.
	sizeVariable = "ESPALIER_TEST_FULL"
	// summaryVariable names the file that lines of a test run's summary go to.
	summaryVariable = "ESPALIER_TEST_SUMMARY"
)

// Size is how much of a sweep a test does: bounded where it is one test of many,
// all of it under `make test-full`.
func Size(bounded, full int) int {
	if os.Getenv(sizeVariable) != "" {
		return full
	}
	return bounded
}

// Say prints a line, and adds it to the summary of a whole test run: go test
// keeps to itself what a package prints that passes.
func Say(tb testing.TB, format string, args ...any) {
	tb.Helper()
	line := fmt.Sprintf(format, args...)
	fmt.Println(line)
	summary := os.Getenv(summaryVariable)
	if summary == "" {
		return
	}
	file, err := os.OpenFile(summary, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		tb.Error(err)
		return
	}
	defer file.Close()
	if _, err := fmt.Fprintln(file, line); err != nil {
		tb.Error(err)
	}
}
