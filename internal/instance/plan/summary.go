package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
)

// Summary is the state of an instance as a plan shows it.
type Summary struct {
	State v1alpha1.InstanceState
	// Reason and Message say why the instance isn't ready; both are empty if it is. Causes come
	// before their consequences.
	Reason  Reason
	Message string
	// Unready says which nodes aren't ready, and why; Message includes it.
	Unready string
	// Failed says what could not be applied or read, or needs an action of a user, and why. An
	// object that was applied and is merely unready is not part of it.
	Failed string
	// Unresolvable lists the expressions that have no value for these inputs.
	Unresolvable string
	// InventoryProblem is why finalizer, labels and inventory can't be written to the instance:
	// until it has them no resource is created. It isn't part of Reason and Message.
	InventoryProblem Problem
	// Stalled lists the waits that exceeded their limits.
	Stalled string
	// Drifted lists the fields that other managers have changed and that are left to them.
	Drifted string
	// Waits are the waits of all nodes.
	Waits []Wait
	// Retry is after how long to reconcile again without an event; 0 for never.
	Retry time.Duration
}

const (
	// maxMessageProblems bounds the problems in a message, and maxMessageLength its bytes: it is
	// repeated on every ancestor.
	maxMessageProblems = 5
	maxMessageLength   = 1024
)

// Summarize sums up a plan.
func Summarize(p Plan, now time.Time) Summary {
	s := Summary{Reason: p.Problem.Reason}
	var problems []summarizedProblem
	if p.Problem.Reason != "" {
		problems = append(problems, summarizedProblem{Problem: p.Problem})
	}
	var stalled, drifted []string
	known := map[WaitKey]bool{}
	for _, step := range p.Steps {
		if step.DriftMessage != "" {
			drifted = append(drifted, step.DriftMessage)
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
			continue // items of a collection may wait for the same object
		}
		problems = append(problems, summarizedProblem{Problem: problem, ofNode: true, deferred: step.Action == Defer})
		for _, w := range fresh {
			known[w.Key()], s.Waits = true, append(s.Waits, w)
			if w.Reason == WaitTimeout {
				stalled = append(stalled, w.Describe(now))
			}
			s.retryIn(w.Next(now))
		}
	}
	switch {
	case s.Reason.IsError(), len(p.Unresolved) > 0:
		s.State = v1alpha1.InstanceError
	case s.Reason != "":
		s.State = v1alpha1.InstanceInProgress
	default:
		s.State = v1alpha1.InstanceActive
	}
	s.Message = joinMessages(problems, func(summarizedProblem) bool { return true })
	s.Unready = joinMessages(problems, func(p summarizedProblem) bool { return p.ofNode })
	s.Failed = joinMessages(problems, summarizedProblem.isFailure)
	s.Unresolvable = joinMessages(problems, summarizedProblem.isUnresolvable, p.Unresolved...)
	s.Stalled, s.Drifted = join(stalled), join(drifted)
	return s
}

type summarizedProblem struct {
	Problem
	ofNode bool
	// deferred says that the object was not applied.
	deferred bool
}

func (p summarizedProblem) isFailure() bool {
	return p.Reason.IsError() || p.Reason.isFailure() && (p.deferred || !p.ofNode)
}

func (p summarizedProblem) isUnresolvable() bool { return p.ofNode && p.Reason.isOfExpressions() }

func joinMessages(problems []summarizedProblem, matches func(summarizedProblem) bool, further ...string) string {
	var texts []string
	for _, p := range problems {
		if matches(p) {
			texts = append(texts, p.Message)
		}
	}
	return join(append(texts, further...))
}

// WithInventoryProblem adds that the inventory can't be written.
func (s Summary) WithInventoryProblem(problem Problem) Summary {
	s.InventoryProblem = problem
	switch {
	case problem.Reason.IsError():
		s.State = v1alpha1.InstanceError
	case s.State == v1alpha1.InstanceActive:
		s.State = v1alpha1.InstanceInProgress
	}
	return s
}

func (s Step) problem() Problem {
	switch {
	case s.Action == Skip, s.Action == Keep && s.Ready, s.Action == Correct && s.Ready:
		return Problem{}
	case s.Action == Keep, s.Action == Correct: // the object exists
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

// If they are too long, each is shortened in its middle, the longest first: the reasons are at their ends.
func join(texts []string) string {
	more := ""
	if len(texts) > maxMessageProblems {
		more = fmt.Sprintf("; and %d more", len(texts)-maxMessageProblems)
		texts = texts[:maxMessageProblems]
	}
	const between = "; "
	return strings.Join(shorten(texts, maxMessageLength-len(between)*len(texts)), between) + more
}

// shorten shortens texts to so many bytes in total: what a short text leaves of its share goes to longer ones.
func shorten(texts []string, room int) []string {
	byLength := make([]int, len(texts))
	for i := range byLength {
		byLength[i] = i
	}
	slices.SortStableFunc(byLength, func(a, b int) int { return len(texts[a]) - len(texts[b]) })
	out := make([]string, len(texts))
	for n, i := range byLength {
		out[i] = diag.TruncateMiddle(texts[i], room/(len(texts)-n))
		room -= len(out[i])
	}
	return out
}
