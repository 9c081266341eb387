package plan

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/health"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

// Limits of status.problems.
const (
	maxProblems      = 20
	maxProblemLength = 512
)

// UnnamedValue is the Wait.On of an expression without a value: Wait.Detail alone says which expression it is, and why.
const UnnamedValue = "a value"

// Problems returns the problems of nodes: why their objects can't be written, and why an object
// isn't ready although its own status says so. Waits are reported separately, by Summary.Waits. A
// problem that was reported before keeps its time.
func Problems(steps []Step, before []report.Problem, now time.Time) []report.Problem {
	type key struct{ node, reason string }
	since := make(map[key]report.Time, len(before))
	for _, p := range before {
		since[key{p.Node, p.Reason}] = p.Since
	}
	var out []report.Problem
	for _, step := range steps {
		found := step.ownProblem()
		if found.Reason == "" {
			continue
		}
		if len(out) == maxProblems {
			break
		}
		p := report.Problem{
			Node: step.Node, Reason: string(found.Reason), Message: diag.TruncateMiddle(found.Message, maxProblemLength), Since: report.At(now),
		}
		if known, ok := since[key{p.Node, p.Reason}]; ok {
			p.Since = known
		}
		out = append(out, p)
	}
	return out
}

// It is zero if there is none, or if the node only waits for another.
func (s Step) ownProblem() Problem {
	switch {
	case s.Action == Defer && len(s.Waits) == 0:
		return s.Problem
	case s.Action == Defer:
		return expressionProblem(s.Waits)
	case s.Action == Keep && !s.Ready && (s.External || looksReady(s.Current)):
		return s.Unready
	}
	return Problem{}
}

// HasExpressionProblem reports whether the step waits for an expression that has no value for these inputs, which no
// event ends.
func (s Step) HasExpressionProblem() bool { return expressionProblem(s.Waits).Reason != "" }

// The expression has no value for these inputs: no event ends such a wait.
func expressionProblem(waits []Wait) Problem {
	for _, w := range waits {
		switch {
		case !w.Reason.isOfExpressions():
			continue
		case w.On == UnnamedValue:
			return Problem{Reason: w.Reason, Message: w.Detail}
		case w.Detail == "":
			return Problem{Reason: w.Reason, Message: w.On}
		}
		return Problem{Reason: w.Reason, Message: w.On + ": " + w.Detail}
	}
	return Problem{}
}

// If it is ready, then the definition's readyWhen or a function makes the node unready.
func looksReady(o *unstructured.Unstructured) bool {
	if o == nil {
		return false
	}
	if inventory.IsInstance(o) {
		return health.Instance(o).Ready
	}
	if ready, ok := health.ReadyConditionOf(o); ok && ready.Status != condition.True {
		return false
	}
	return health.Of(o).Ready
}
