package graph

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// A node depends on every node that its expressions name: that is the order of application and deletion. What it waits for, and
// what it is skipped with, is only what the expressions need: a path in a branch that is not taken is not needed, nor is the
// skipped side of an optional value. Paths that are always read are known from the expressions; all others are found
// by evaluation, with skipped nodes as expr.Skipped.

// alwaysNeeds reports whether the node has no value without another node, whatever its conditional expressions evaluate to.
func (n *Node) alwaysNeeds(id string) bool {
	return slices.ContainsFunc(n.refs, func(r expr.Ref) bool {
		return r.Root == id && !r.Conditional && (len(r.Path) == 0 || !r.Path[0].Optional)
	})
}

func (c *composition) skipWith(out *plan.Node, id string) {
	dep := c.nodes[id]
	out.Waits, out.Observed, out.SkipCause = nil, nil, dep.SkipCause
	out.SkipMessage = fmt.Sprintf("depends on %s, which is skipped: %s", id, dep.SkipCause)
	if dep.SkipCause.By != id {
		out.SkipMessage = fmt.Sprintf("depends on %s, which is skipped because of %s: %s", id, dep.SkipCause.By, dep.SkipCause)
	}
}

type evaluation func(vars map[string]any) (any, error)

// evaluate evaluates expressions of a node, which read the given paths. It skips the node if they need a skipped one, whatever the nodes
// that are not ready become. Otherwise it returns the value, or waits for what is missing or invalid, and for the nodes that were
// read and are not ready.
func (c *composition) evaluate(n *Node, out *plan.Node, refs []expr.Ref, vars map[string]any, eval evaluation) (any, []plan.Wait) {
	value, err := eval(vars)
	var needs *expr.NeedsSkipped
	switch {
	case errors.As(err, &needs):
		waits := c.waitsForBranches(n, refs, vars, eval)
		if len(waits) == 0 {
			c.skipWith(out, needs.Name)
		}
		return nil, waits
	case err != nil:
		return nil, distinctWaits(c.graph.waitsForError(n, err))
	}
	return value, c.waitsForBranches(n, refs, vars, eval)
}

// renderTemplate returns false if it sets out.Waits or skips the node.
func (c *composition) renderTemplate(n *Node, vars map[string]any, out *plan.Node) (any, bool) {
	document, waits := c.evaluate(n, out, n.template.Refs(), vars, func(vars map[string]any) (any, error) { return n.template.RenderWithin(c.budget, vars) })
	if len(waits) > 0 {
		out.Waits = waits
	}
	return document, len(waits) == 0 && out.SkipMessage == ""
}

// waitsForBranches lists waits for the nodes that an evaluation reads, though not in every case, and that are not ready. The
// evaluation lacks nothing; it is repeated without these nodes, where it lacks those that it reads.
func (c *composition) waitsForBranches(n *Node, refs []expr.Ref, vars map[string]any, eval evaluation) []plan.Wait {
	var unready []string
	for _, id := range n.Dependencies {
		reads := func(r expr.Ref) bool { return r.Root == id }
		if c.mustBecomeReady(n, id) && slices.ContainsFunc(refs, reads) && !slices.ContainsFunc(refs, func(r expr.Ref) bool { return reads(r) && !r.Conditional }) {
			unready = append(unready, id)
		}
	}
	if len(unready) == 0 {
		return nil
	}
	without := maps.Clone(vars)
	for _, id := range unready {
		delete(without, id)
	}
	_, err := eval(without)
	var pending *expr.Pending
	if !errors.As(err, &pending) {
		return nil
	}
	var waits []plan.Wait
	for _, id := range unready {
		if slices.ContainsFunc(pending.Refs, func(r expr.Ref) bool { return r.Root == id }) {
			waits = append(waits, c.readinessWait(n, id))
		}
	}
	return waits
}

// mustBecomeReady reports whether a node waits for a dependency: until that is ready or, in a Graph, exists.
func (c *composition) mustBecomeReady(n *Node, id string) bool {
	dep := c.nodes[id]
	if s := c.graph.standalone; s != nil && !s.waitForReadiness {
		_, exists := c.vars[id]
		return dep.SkipMessage == "" && (!exists || c.partial[id])
	}
	return !dep.Ready && dep.SkipMessage == "" && !c.waitsForFieldsOnly(n, dep)
}

func (c *composition) readinessWait(n *Node, id string) plan.Wait {
	wait := plan.Wait{Node: n.ID, Reason: plan.WaitingForReadiness, On: id}
	if c.graph.node(id).Collection {
		wait.Detail = c.nodes[id].Unready.Message
	}
	return wait
}
