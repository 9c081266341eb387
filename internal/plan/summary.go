package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
)

// Summary is what a plan says of its instance as a whole.
type Summary struct {
	State v1alpha1.InstanceState
	// Reason and Message say why the instance isn't ready; both are empty when
	// it is. Causes come before what follows from them.
	Reason  Reason
	Message string
	// Unready says which nodes aren't ready, and why; the message has it too.
	Unready string
	// Unresolvable says which expressions have no value for these inputs.
	Unresolvable string
	// Stalled says which waits are past their limit.
	Stalled string
	// Drifted says which fields others have changed that are left so.
	Drifted string
	// Waits are all single waits of all nodes.
	Waits []Wait
	// Retry is when to look again, events aside; 0 for never.
	Retry time.Duration
}

const (
	// mostTold bounds how many problems a message tells, longestMessage its
	// length: it is repeated on every ancestor.
	mostTold       = 5
	longestMessage = 1024
)

// Summarize tells what a plan says of its instance as a whole.
func Summarize(p Plan, now time.Time) Summary {
	s := Summary{State: v1alpha1.InstanceActive}
	var texts, unready, unresolvable, stalled, drifted []string
	known := map[WaitKey]bool{}
	if p.Problem.Reason != "" {
		s.Reason, texts = p.Problem.Reason, append(texts, p.Problem.Message)
	}
	for _, step := range p.Steps {
		if step.Drifted != "" {
			drifted = append(drifted, step.Drifted)
		}
		problem := step.problem()
		if problem.Reason == "" {
			continue
		}
		if s.Reason == "" || (problem.Reason.IsError() && !s.Reason.IsError()) {
			s.Reason = problem.Reason
		}
		s.retryIn(step.Retry)
		fresh := slices.DeleteFunc(slices.Clone(step.Waits), func(w Wait) bool { return known[w.Key()] })
		if len(fresh) == 0 && len(step.Waits) > 0 {
			continue // items of a collection may wait for one and the same
		}
		texts, unready = append(texts, problem.Message), append(unready, problem.Message)
		if problem.Reason.isOfExpressions() {
			unresolvable = append(unresolvable, problem.Message)
		}
		for _, w := range fresh {
			known[w.Key()], s.Waits = true, append(s.Waits, w)
			if w.Reason == WaitTimeout {
				stalled = append(stalled, w.Describe(now))
			}
			s.retryIn(w.Next(now))
		}
	}
	unresolvable = append(unresolvable, p.Unresolved...)
	switch {
	case s.Reason.IsError(), len(p.Unresolved) > 0:
		s.State = v1alpha1.InstanceError
	case s.Reason != "":
		s.State = v1alpha1.InstanceInProgress
	}
	s.Message, s.Unready, s.Unresolvable, s.Stalled, s.Drifted = join(texts), join(unready), join(unresolvable), join(stalled), join(drifted)
	return s
}

// problem is why the step's node isn't ready, with the node's name in front.
func (s Step) problem() Problem {
	switch {
	case s.Action == Skip, s.Action == Keep && s.Ready:
		return Problem{}
	case s.Action == Keep:
		return s.Unready
	case s.Action == Hold && len(s.Waits) > 0:
		return s.Problem
	case s.Action == Hold:
		return Problem{Reason: s.Problem.Reason, Message: s.Node + ": " + s.Problem.Message}
	}
	return Problem{Reason: Unavailable, Message: s.Node + ": is being applied"}
}

func (s *Summary) retryIn(d time.Duration) {
	if d > 0 && (s.Retry == 0 || d < s.Retry) {
		s.Retry = d
	}
}

func join(texts []string) string {
	more := ""
	if len(texts) > mostTold {
		more = fmt.Sprintf("; and %d more", len(texts)-mostTold)
		texts = texts[:mostTold]
	}
	return diag.Cut(strings.Join(texts, "; "), longestMessage) + more
}
