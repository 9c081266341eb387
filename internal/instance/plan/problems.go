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

// Bounds of what an instance's status tells of its nodes' problems.
const (
	mostProblems   = 20
	longestProblem = 512
)

// UnnamedValue is what a node waits for whose expression has no value, as Wait.On names it:
// the Detail alone says which expression it is, and why.
const UnnamedValue = "a value"

// Problems are why nodes are not as they should be: what keeps their objects from being
// written, and what makes an object unready that looks ready by its own status. What nodes
// wait for is told apart, by Summary.Waits. A problem that was there before keeps its time.
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
		if len(out) == mostProblems {
			break
		}
		p := report.Problem{
			Node: step.Node, Reason: string(found.Reason), Message: diag.Cut(found.Message, longestProblem), Since: report.At(now),
		}
		if known, ok := since[key{p.Node, p.Reason}]; ok {
			p.Since = known
		}
		out = append(out, p)
	}
	return out
}

// ownProblem is what is wrong with the step's node itself; the zero Problem while nothing is, or
// while the node waits for another.
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

// expressionProblem is the first of the waits that no event ends: an expression has no value
// for these inputs.
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

// looksReady says whether the object of an unready node is ready by its own status, so that
// only the definition's readyWhen, or a function, says otherwise.
func looksReady(o *unstructured.Unstructured) bool {
	if o == nil {
		return false
	}
	if inventory.IsInstance(o) {
		return health.Instance(o).Ready
	}
	if said, ok := health.Says(o); ok && said.Status != condition.True {
		return false
	}
	return health.Of(o).Ready
}
