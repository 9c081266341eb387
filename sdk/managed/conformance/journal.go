package conformance

import (
	"fmt"
	"strings"

	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// note adds a line to what was done.
func (l *life) note(format string, args ...any) {
	l.journal = append(l.journal, fmt.Sprintf("%7.1fs  %s", l.time.Now().Sub(l.started).Seconds(), fmt.Sprintf(format, args...)))
}

// fails reports that a promise isn't kept.
func (l *life) fails(p Promise, format string, args ...any) {
	l.failed = true
	where := l.where
	if l.death.in != "" {
		where += fmt.Sprintf("; in its step %s %s", l.death.in, l.death.fate)
	}
	if l.ill != nil && l.asked >= l.illAt {
		where += fmt.Sprintf("; during its call %d %s", l.illAt, l.ill.name)
	}
	l.report.add(Finding{Promise: p, Where: where, Detail: fmt.Sprintf(format, args...), Journal: append([]string(nil), l.journal...)})
}

func told(i external.Intent) string {
	text := fmt.Sprintf("%s, attempt %d", i.Verb, i.Attempt)
	if i.Ref != "" {
		text += fmt.Sprintf(", of %q", i.Ref)
	}
	return text
}

func seen(o external.Observation, err error) string {
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
		words = append(words, map[external.Answer]string{external.Yes: "as wanted", external.No: "not as wanted", external.CannotTell: "as wanted or not"}[o.UpToDate])
	}
	if o.Mark != nil {
		words = append(words, "marked "+o.Mark.ID)
	}
	return strings.Join(words, ", ")
}

func answered(op external.Op, err error) string {
	switch {
	case err != nil:
		return "error: " + err.Error()
	case op.Err != nil:
		return map[external.Class]string{external.Ambiguous: "Ambiguous: ", external.Rejected: "Rejected: ", external.Failed: "Failed: "}[op.Err.Class] + op.Err.Error()
	case op.Done:
		return fmt.Sprintf("done %q", op.Ref)
	}
	return fmt.Sprintf("goes on as %q %q %s", op.Resume, op.Ref, op.State)
}
