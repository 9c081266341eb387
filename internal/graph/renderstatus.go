package graph

import (
	"errors"
	"slices"
	"sync"

	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// renderStatus renders the author's status fields. A field keeps its previous value while
// the object that it reads cannot be read; it is removed if that object is gone.
func (c *composition) renderStatus() map[string]any {
	if c.graph.status == nil {
		return nil
	}
	previous, _ := c.facts.Instance.Object["status"].(map[string]any)
	unobservable := sync.OnceValue(c.unobservable)
	keep := func(at []any, reason error) (any, bool) {
		var missing *expr.Pending
		if !errors.As(reason, &missing) {
			return nil, false
		}
		for _, r := range missing.Refs {
			if unobservable()[r.Root] {
				return valueAt(previous, at)
			}
		}
		return nil, false
	}
	value, missing := c.graph.status.RenderPartial(c.budget, c.vars, keep)
	for _, m := range missing {
		var pending *expr.Pending
		var needs *expr.NeedsSkipped
		if !errors.As(m.Err, &pending) && !errors.As(m.Err, &needs) {
			c.desired.Unresolved = append(c.desired.Unresolved, c.unresolvedMessage(m))
		}
	}
	fields, _ := value.(map[string]any)
	return fields
}

func (c *composition) unresolvedMessage(m expr.Missing) string {
	if c.graph.mayReadSecret(c.graph.status.Refs()) {
		return redactedText(m.Err)
	}
	return m.Err.Error()
}

// unobservable are the ids of the nodes whose object may exist though it was not observed, and of the
// variables that depend on such a node.
func (c *composition) unobservable() map[string]bool {
	out := map[string]bool{}
	for _, n := range c.graph.Nodes { // in topological order
		switch {
		case c.nodes[n.ID].SkipMessage != "":
		case n.Variable:
			out[n.ID] = slices.ContainsFunc(n.Dependencies, func(id string) bool { return out[id] })
		default:
			out[n.ID] = c.isUnobservable(n)
		}
	}
	return out
}

// isUnobservable reports whether the node's object may exist though it was not observed: its kind cannot be read, or
// its name is not known.
func (c *composition) isUnobservable(n *Node) bool {
	node := c.nodes[n.ID]
	if _, unreadable := c.facts.UnreadableOwned[n.Kind]; unreadable && !n.External {
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

func valueAt(value any, at []any) (any, bool) {
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
