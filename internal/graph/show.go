package graph

import (
	"errors"
	"slices"

	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// status resolves the author's status fields. Where a source could not be looked
// at, what was shown before stays; where it is gone, so is its value.
func (c *composition) status() map[string]any {
	if c.graph.status == nil {
		return nil
	}
	previous, _ := c.facts.Instance.Object["status"].(map[string]any)
	keep := func(at []any, reason error) (any, bool) {
		var missing *expr.Pending
		if !errors.As(reason, &missing) {
			return nil, false
		}
		for _, r := range missing.Refs {
			if node := c.graph.node(r.Root); node != nil && c.unseen(node) {
				return lookup(previous, at)
			}
		}
		return nil, false
	}
	value, missing := c.graph.status.RenderPartial(c.vars, keep)
	for _, m := range missing {
		var pending *expr.Pending
		if !errors.As(m.Err, &pending) {
			c.desired.Unresolved = append(c.desired.Unresolved, c.unresolved(m))
		}
	}
	fields, _ := value.(map[string]any)
	return fields
}

// unresolved says why a status field has no value for these inputs.
func (c *composition) unresolved(m expr.Missing) string {
	if c.graph.conceals(c.graph.status.Refs()) {
		return string(m.At) + ": has no value " + hidden
	}
	return m.Err.Error()
}

// unseen says whether the node's object could not be looked for, so that nothing
// follows from its absence: its kind can't be read, or its name isn't known.
func (c *composition) unseen(n *Node) bool {
	node := c.nodes[n.ID]
	if node.Skipped != "" {
		return false
	}
	if n.Variable {
		return slices.ContainsFunc(n.Dependencies, func(id string) bool { return c.unseen(c.graph.node(id)) })
	}
	if _, blind := c.facts.UnreadableOwned[n.Kind]; blind && !n.External {
		return true
	}
	if node.Observed != nil || node.Object != nil {
		return false
	}
	if n.External {
		return !slices.ContainsFunc(node.Waits, func(w plan.Wait) bool { return w.Reason == plan.WaitingForExternal })
	}
	return len(c.facts.Owned[n.ID]) > 0
}

func lookup(value any, at []any) (any, bool) {
	for _, step := range at {
		switch v := value.(type) {
		case map[string]any:
			key, _ := step.(string)
			next, ok := v[key]
			if !ok {
				return nil, false
			}
			value = next
		case []any:
			i, ok := step.(int)
			if !ok || i < 0 || i >= len(v) {
				return nil, false
			}
			value = v[i]
		default:
			return nil, false
		}
	}
	return value, true
}
