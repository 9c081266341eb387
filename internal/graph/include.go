package graph

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// evaluateIncludeWhen skips the node if a condition is false, or if a skipped dependency leaves the node without a
// value. The node waits for a condition that cannot be evaluated yet, unless another is false.
func (c *composition) evaluateIncludeWhen(n *Node, out *plan.Node) {
	for _, id := range n.Dependencies {
		if c.nodes[id].SkipMessage != "" && n.alwaysNeeds(id) {
			c.skipWith(out, id)
			return
		}
	}
	var waits []plan.Wait
	for _, p := range n.includeWhen {
		missing := c.waitsForDependencies(n, p.Refs())
		if len(missing) == 0 {
			var value any
			value, missing = c.evaluate(n, out, p.Refs(), c.vars, func(vars map[string]any) (any, error) { return p.EvalWithin(c.budget, vars) })
			if out.SkipMessage != "" {
				return
			}
			if len(missing) == 0 && value != true {
				out.SkipCause = &plan.SkipCause{By: n.ID, Condition: p.Source(), Inputs: c.describeInputs(p)}
				out.SkipMessage = out.SkipCause.String()
				return
			}
		}
		waits = append(waits, missing...)
	}
	out.Waits = distinctWaits(waits)
}

// describeInputs lists the values that a condition has read. A condition that consists of
// a path has none: its text says it.
func (c *composition) describeInputs(p *expr.Program) []string {
	if _, alone := p.Path(); alone {
		return nil
	}
	var out []string
	for _, r := range p.Refs() {
		// Items of a list are shown as the size of the list.
		if each := slices.IndexFunc(r.Path, func(s expr.Step) bool { return s.Each }); each >= 0 {
			r.Path = r.Path[:each]
		}
		text := r.String() + " " + c.describeInput(r)
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	if more := len(out) - maxShownInputs; more > 0 {
		out = append(out[:maxShownInputs], fmt.Sprintf("and %d more", more))
	}
	return out
}

// maxShownInputs bounds the inputs in a message, maxShownInput the bytes of each.
const (
	maxShownInputs = 5
	maxShownInput  = 100
)

func (c *composition) describeInput(r expr.Ref) string {
	if c.vars[r.Root] == expr.Skipped {
		return "is skipped"
	}
	value, there := c.graph.scope.Value(r, c.vars)
	if !there {
		return "is not set"
	}
	if c.graph.mayReadSecret([]expr.Ref{r}) {
		return "is " + redacted
	}
	switch v := value.(type) {
	case []any:
		if len(v) == 1 {
			return "has 1 item"
		}
		return fmt.Sprintf("has %d items", len(v))
	case map[string]any:
		return "is an object"
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return "cannot be shown"
	}
	return "is " + diag.Truncate(string(raw), maxShownInput)
}

// IsConditional reports whether conditions of the definition can leave the node out.
func (n *Node) IsConditional() bool { return len(n.includeWhen) > 0 }
