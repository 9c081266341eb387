package conformance

import (
	"fmt"
	"strings"
)

// Report is the result of a suite.
type Report struct {
	// Scenarios is how many scenarios ran.
	Scenarios int
	// Calls counts the calls of the client's methods that may call the external API, Changes the calls of Begin.
	Calls, Changes int
	// Findings holds the first violation of each promise.
	Findings []Finding
}

// Finding is the violation of a promise.
type Finding struct {
	Promise Promise
	// Scenario names the policies, the crash and the fault.
	Scenario string
	// Detail is what was observed instead.
	Detail string
	// Log lists what was done until then.
	Log []string
	// More counts further violations of the same promise.
	More int
}

// maxLogLines is how many lines of a log are printed: the last ones explain most.
const maxLogLines = 40

// String describes the finding, with its log.
func (f Finding) String() string {
	text := fmt.Sprintf("Promise broken: %s.\n  %s: %s.", f.Promise, f.Scenario, f.Detail)
	if f.More > 0 {
		text += fmt.Sprintf("\n  It is broken %d more times.", f.More)
	}
	if len(f.Log) > 0 {
		lines := f.Log
		if omitted := len(lines) - maxLogLines; omitted > 0 {
			lines = append([]string{fmt.Sprintf("(%d lines omitted)", omitted)}, lines[omitted:]...)
		}
		text += "\n  Log of the scenario:\n    " + strings.Join(lines, "\n    ")
	}
	return text
}

// String returns the counts.
func (r *Report) String() string {
	return fmt.Sprintf("%d scenarios, %d calls, %d of them changes", r.Scenarios, r.Calls, r.Changes)
}

func (r *Report) add(f Finding) {
	for i := range r.Findings {
		if r.Findings[i].Promise == f.Promise {
			r.Findings[i].More++
			return
		}
	}
	r.Findings = append(r.Findings, f)
}
