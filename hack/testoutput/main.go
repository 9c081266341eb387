// Command testoutput reads the output of 'go test -json', prints what 'go test' prints, and writes the tests that were skipped to a file, which
// 'go test' does not tell.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go test -json ... | testoutput FILE")
		os.Exit(2)
	}
	skipped, err := convert(os.Stdin, os.Stdout)
	if err == nil && len(skipped) > 0 {
		err = appendTo(os.Args[1], strings.Join(skipped, "\n")+"\n")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testoutput:", err)
		os.Exit(1)
	}
}

func appendTo(name, text string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(text); err != nil {
		return err
	}
	return f.Close()
}

// event is a line of 'go test -json'.
type event struct{ Action, Package, ImportPath, Test, Output string }

// id names a test. Test is empty for what the package itself prints.
type id struct{ pkg, test string }

// convert prints the output of tests that failed and the result of each package, and returns a line for each test that was skipped.
func convert(from io.Reader, to io.Writer) (skipped []string, err error) {
	pending := map[id]*strings.Builder{}
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil {
				fmt.Fprint(to, line)
			} else if reason, isSkipped := handle(e, pending, to); isSkipped {
				skipped = append(skipped, fmt.Sprintf("%s %s: %s", e.Package, e.Test, reason))
			}
		}
		if err == io.EOF {
			return skipped, nil
		}
		if err != nil {
			return skipped, err
		}
	}
}

// handle handles an event. It returns why a test was skipped.
func handle(e event, pending map[id]*strings.Builder, to io.Writer) (reason string, isSkipped bool) {
	of := id{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(to, e.Output)
	case "output":
		if pending[of] == nil {
			pending[of] = &strings.Builder{}
		}
		if isResult(e) {
			fmt.Fprint(to, e.Output)
		} else if !strings.HasPrefix(e.Output, "=== ") {
			pending[of].WriteString(e.Output)
		}
	case "fail":
		for other, text := range pending {
			if other == of || e.Test == "" && other.pkg == e.Package { // a package that panics says nothing of the tests that were running
				fmt.Fprint(to, text)
				delete(pending, other)
			}
		}
	case "skip":
		if e.Test != "" && pending[of] != nil {
			reason, isSkipped = reasonOf(pending[of].String()), true
		}
		delete(pending, of)
	case "pass":
		delete(pending, of)
	}
	return reason, isSkipped
}

// isResult reports whether an output is the line with the result of a package.
func isResult(e event) bool {
	if e.Test != "" {
		return false
	}
	for _, prefix := range []string{"ok  \t", "FAIL\t", "?   \t"} {
		if strings.HasPrefix(e.Output, prefix) {
			return true
		}
	}
	return false
}

// reasonOf returns why a test was skipped, from its output: "    file_test.go:12: the reason".
func reasonOf(output string) string {
	for line := range strings.Lines(output) {
		if _, after, ok := strings.Cut(strings.TrimSpace(line), "_test.go:"); ok {
			_, reason, _ := strings.Cut(after, ": ")
			return reason
		}
	}
	return strings.Join(strings.Fields(output), " ")
}
