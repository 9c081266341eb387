package graph

import (
	"errors"
	"slices"

	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// waitsOf turns an error of an evaluation into what the node waits for.
func (g *Graph) waitsOf(n *Node, err error) []plan.Wait {
	var pending *expr.Pending
	if errors.As(err, &pending) {
		var waits []plan.Wait
		for _, r := range pending.Refs {
			for _, whole := range throughout(n.refs, r) {
				waits = append(waits, fieldWait(n, whole))
			}
		}
		return waits
	}
	detail := err.Error()
	if g.conceals(n.refs) {
		detail = "an expression has no value for these inputs " + hidden
		if misfit := (*expr.Mismatch)(nil); errors.As(err, &misfit) {
			detail = misfit.Redacted()
		}
	}
	return []plan.Wait{{Node: n.ID, Reason: plan.EvaluationFailed, On: plan.UnnamedValue, Detail: detail}}
}

// throughout returns the paths that the node reads through a missing one. A wait
// keeps its name, and with it its time, while more and more of its path appears.
func throughout(refs []expr.Ref, missing expr.Ref) []expr.Ref {
	var out []expr.Ref
	for _, r := range refs {
		if !r.Optional && r.Root == missing.Root && len(r.Path) > len(missing.Path) && leads(r.Path, missing.Path) {
			path := slices.Concat(missing.Path, r.Path[len(missing.Path):])
			out = append(out, expr.Ref{Root: r.Root, Path: path})
		}
	}
	if len(out) == 0 {
		return []expr.Ref{missing}
	}
	return out
}

// leads says whether a path begins with the given steps, or may.
func leads(path, steps []expr.Step) bool {
	for i, s := range steps {
		if !path[i].Each && (path[i].Name != s.Name || path[i].Index != s.Index) {
			return false
		}
	}
	return true
}

func fieldWait(n *Node, r expr.Ref) plan.Wait {
	w := plan.Wait{Node: n.ID, Reason: plan.WaitingForField, On: r.String()}
	if r.Root == instanceVariable {
		w.Detail = "not set on the instance"
	}
	return w
}

// distinct keeps the first wait for each thing, which is the one with limits.
func distinct(waits []plan.Wait) []plan.Wait {
	seen := map[plan.WaitKey]bool{}
	out := waits[:0]
	for _, w := range waits {
		if !seen[w.Key()] {
			seen[w.Key()] = true
			out = append(out, w)
		}
	}
	return out
}
