package conformance

import (
	"fmt"
	"strings"
)

// Report is what came of a suite.
type Report struct {
	// Lives is how many were played, of so many that there are, if it is known.
	Lives int
	// Calls is how many calls the client got that may go outside, Changes those of Begin.
	Calls, Changes int
	// Findings holds the first of each promise that isn't kept.
	Findings []Finding
}

// Finding is a promise that isn't kept.
type Finding struct {
	Promise Promise
	// Where is under which policies, and when the process died.
	Where string
	// Detail is what was seen instead.
	Detail string
	// Journal is what was done until then.
	Journal []string
	// More is how often the same promise wasn't kept after that.
	More int
}

// longest is how much of a journal is told: the end says most.
const longest = 40

// String tells of a finding in sentences, with the journal.
func (f Finding) String() string {
	text := fmt.Sprintf("This promise isn't kept: %s.\n  %s: %s.", f.Promise, f.Where, f.Detail)
	if f.More > 0 {
		text += fmt.Sprintf("\n  It isn't kept %d more times.", f.More)
	}
	if len(f.Journal) > 0 {
		lines := f.Journal
		if left := len(lines) - longest; left > 0 {
			lines = append([]string{fmt.Sprintf("(%d lines)", left)}, lines[left:]...)
		}
		text += "\n  What was done until then:\n    " + strings.Join(lines, "\n    ")
	}
	return text
}

// String tells the counts.
func (r *Report) String() string {
	return fmt.Sprintf("%d lives, %d calls, %d of which may change something", r.Lives, r.Calls, r.Changes)
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
