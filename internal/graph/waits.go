package graph

import (
	"errors"
	"slices"

	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

func (g *Graph) waitsForError(n *Node, err error) []plan.Wait {
	var pending *expr.Pending
	if errors.As(err, &pending) {
		var waits []plan.Wait
		for _, r := range g.shown(pending.Refs, n.refs) {
			for _, path := range readsThrough(n.refs, r) {
				waits = append(waits, g.fieldWait(n, path))
			}
		}
		return waits
	}
	detail := err.Error()
	if g.mayReadSecret(n.refs) {
		detail = redactedText(err)
	}
	reason, on := plan.EvaluationFailed, plan.UnnamedValue
	var failure *expr.Failure
	if g.standalone != nil && errors.As(err, &failure) && failure.IsMissing() {
		reason, on = plan.WaitingForField, "value" // authors of Graphs wait so, such as by the first item of a filtered list
	}
	return []plan.Wait{{Node: n.ID, Reason: reason, On: on, Detail: detail}}
}

// shown are missing paths as messages may name them: where keys or indices may be computed from a
// Secret, as the expressions write them, which is [*] for a computed one.
func (g *Graph) shown(missing, refs []expr.Ref) []expr.Ref {
	if !g.mayReadSecret(refs) {
		return missing
	}
	out := make([]expr.Ref, len(missing))
	for i, m := range missing {
		out[i] = asWritten(m, refs)
	}
	return out
}

// asWritten returns the part of an expression's path that leads to a missing path, or its root.
func asWritten(missing expr.Ref, refs []expr.Ref) expr.Ref {
	for _, r := range refs {
		if r.Root == missing.Root && len(r.Path) >= len(missing.Path) && hasPrefix(r.Path, missing.Path) {
			return expr.Ref{Root: r.Root, Path: r.Path[:len(missing.Path)]}
		}
	}
	return expr.Ref{Root: missing.Root}
}

// readsThrough returns the paths that the node reads below a missing path. A wait for the
// full path keeps its name, and so its start time, while the parts of the path appear one
// by one.
func readsThrough(refs []expr.Ref, missing expr.Ref) []expr.Ref {
	var out []expr.Ref
	for _, r := range refs {
		if !r.Optional && r.Root == missing.Root && len(r.Path) > len(missing.Path) && hasPrefix(r.Path, missing.Path) {
			path := slices.Concat(missing.Path, r.Path[len(missing.Path):])
			out = append(out, expr.Ref{Root: r.Root, Path: path})
		}
	}
	if len(out) == 0 {
		return []expr.Ref{missing}
	}
	return out
}

// hasPrefix reports whether a path may begin with the given steps.
func hasPrefix(path, steps []expr.Step) bool {
	for i, s := range steps {
		if !path[i].Each && (path[i].Name != s.Name || path[i].Index != s.Index) {
			return false
		}
	}
	return true
}

// fieldWait is the wait for a path; for the path of a whole node it is the wait for the node.
func (g *Graph) fieldWait(n *Node, r expr.Ref) plan.Wait {
	if len(r.Path) == 0 && g.node(r.Root) != nil {
		return plan.Wait{Node: n.ID, Reason: plan.WaitingForReadiness, On: r.Root}
	}
	return g.pathWait(n, r)
}

func (g *Graph) pathWait(n *Node, r expr.Ref) plan.Wait {
	w := plan.Wait{Node: n.ID, Reason: plan.WaitingForField, On: r.String()}
	if r.Root == instanceVariable && g.standalone == nil {
		w.Detail = "not set on the instance"
	}
	return w
}

// distinctWaits keeps the first wait of each key, which is the one with a timeout.
func distinctWaits(waits []plan.Wait) []plan.Wait {
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
