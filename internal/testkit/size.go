package testkit

import (
	"fmt"
	"os"
	"testing"
)

const (
	// sizeVariable requests complete sweeps.
	sizeVariable = "ESPALIER_TEST_FULL"
	// summaryVariable names the file to which Report appends.
	summaryVariable = "ESPALIER_TEST_SUMMARY"
)

// Size returns the size of a sweep: full under `make test-full`, bounded otherwise.
func Size(bounded, full int) int {
	if os.Getenv(sizeVariable) != "" {
		return full
	}
	return bounded
}

// Report prints a line and appends it to the summary of the whole test run, since go test
// hides the output of packages that pass.
func Report(tb testing.TB, format string, args ...any) {
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
