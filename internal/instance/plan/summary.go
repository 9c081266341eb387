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
	// Failed says what could not be applied, or found out, and why; an object that was
	// applied and isn't ready is not among it.
	Failed string
	// Unresolvable says which expressions have no value for these inputs.
	Unresolvable string
	// Unclaimed says why the instance couldn't be given its finalizer, labels and inventory;
	// until it has them nothing is made for it. It isn't part of Reason and Message.
	Unclaimed Problem
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
	var texts, unready, failed, unresolvable, stalled, drifted []string
	known := map[WaitKey]bool{}
	if p.Problem.Reason != "" {
		s.Reason, texts = p.Problem.Reason, append(texts, p.Problem.Message)
		if p.Problem.Reason.isFailure() {
			failed = append(failed, p.Problem.Message)
		}
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
		if step.Action == Defer && problem.Reason.isFailure() {
			failed = append(failed, problem.Message)
		}
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
	s.Message, s.Unready, s.Failed = join(texts), join(unready), join(failed)
	s.Unresolvable, s.Stalled, s.Drifted = join(unresolvable), join(stalled), join(drifted)
	return s
}

// Without is the summary of an instance that couldn't be claimed.
func (s Summary) Without(claim Problem) Summary {
	s.Unclaimed = claim
	switch {
	case claim.Reason.IsError():
		s.State = v1alpha1.InstanceError
	case s.State == v1alpha1.InstanceActive:
		s.State = v1alpha1.InstanceInProgress
	}
	return s
}

// problem is why the step's node isn't ready, with the node's name in front.
func (s Step) problem() Problem {
	switch {
	case s.Action == Skip, s.Action == Keep && s.Ready, s.Action == Correct && s.Ready:
		return Problem{}
	case s.Action == Keep, s.Action == Correct: // the object is there, whoever has a field of it
		return s.Unready
	case s.Action == Defer && len(s.Waits) > 0:
		return s.Problem
	case s.Action == Defer:
		return Problem{Reason: s.Problem.Reason, Message: s.Node + ": " + s.Problem.Message}
	}
	return Problem{Reason: Unavailable, Message: s.Node + ": is being applied"}
}

func (s *Summary) retryIn(d time.Duration) {
	if d > 0 && (s.Retry == 0 || d < s.Retry) {
		s.Retry = d
	}
}

// join puts texts together. Where they are too long, each gives what it has in the middle,
// the longest first: the reasons stand at their ends.
func join(texts []string) string {
	more := ""
	if len(texts) > mostTold {
		more = fmt.Sprintf("; and %d more", len(texts)-mostTold)
		texts = texts[:mostTold]
	}
	const between = "; "
	return strings.Join(shorten(texts, longestMessage-len(between)*len(texts)), between) + more
}

// shorten returns texts of so many bytes altogether: those that are shorter than their share
// leave the rest to the others.
func shorten(texts []string, room int) []string {
	byLength := make([]int, len(texts))
	for i := range byLength {
		byLength[i] = i
	}
	slices.SortStableFunc(byLength, func(a, b int) int { return len(texts[a]) - len(texts[b]) })
	out := make([]string, len(texts))
	for n, i := range byLength {
		out[i] = diag.Shorten(texts[i], room/(len(texts)-n))
		room -= len(out[i])
	}
	return out
}
