package conformance

import (
	"fmt"
	"strings"

	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// logf adds a line to the scenario's log.
func (s *scenario) logf(format string, args ...any) {
	s.log = append(s.log, fmt.Sprintf("%7.1fs  %s", s.time.Now().Sub(s.started).Seconds(), fmt.Sprintf(format, args...)))
}

// fail reports the violation of a promise.
func (s *scenario) fail(p Promise, format string, args ...any) {
	s.failed = true
	name := s.name
	if s.crash.step != "" {
		name += fmt.Sprintf("; at step %s, %s", s.crash.step, s.crash.mode)
	}
	if s.fault != nil && s.calls >= s.faultAt {
		name += fmt.Sprintf("; during call %d, %s", s.faultAt, s.fault.name)
	}
	s.report.add(Finding{Promise: p, Scenario: name, Detail: fmt.Sprintf(format, args...), Log: append([]string(nil), s.log...)})
}

func intentText(i external.Intent) string {
	text := fmt.Sprintf("%s, attempt %d", i.Verb, i.Attempt)
	if i.Ref != "" {
		text += fmt.Sprintf(", of %q", i.Ref)
	}
	return text
}

func observationText(o external.Observation, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	words := []string{o.Presence.String()}
	if o.Ref != "" {
		words = append(words, fmt.Sprintf("%q", o.Ref))
	}
	if o.State != "" {
		words = append(words, o.State)
	}
	if o.Presence == external.Present {
		words = append(words, map[external.Answer]string{external.Yes: "up to date", external.No: "not up to date",
			external.CannotTell: "unknown whether up to date"}[o.UpToDate])
	}
	if o.Mark != nil {
		words = append(words, "marked "+o.Mark.ID)
	}
	return strings.Join(words, ", ")
}

func opText(op external.Op, err error) string {
	switch {
	case err != nil:
		return "error: " + err.Error()
	case op.Err != nil:
		return map[external.Class]string{external.Ambiguous: "Ambiguous: ", external.Rejected: "Rejected: ",
			external.Failed: "Failed: "}[op.Err.Class] + op.Err.Error()
	case op.Done:
		return fmt.Sprintf("done %q", op.Ref)
	}
	return fmt.Sprintf("in progress: operation %q, resource %q %s", op.Resume, op.Ref, op.State)
}

func errorText(err error) string {
	if err == nil {
		return "no error"
	}
	return fmt.Sprintf("error: %v", err)
}
