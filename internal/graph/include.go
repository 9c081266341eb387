package graph

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// skip leaves the node out when a condition says so, or when something that it
// depends on is left out. A condition that can't be told yet is waited for,
// unless another is false.
func (c *composition) skip(n *Node, out *plan.Node) {
	for _, id := range n.Dependencies {
		dep := c.nodes[id]
		if dep.Skipped == "" {
			continue
		}
		out.LeftOut = dep.LeftOut
		out.Skipped = fmt.Sprintf("depends on %s, which is left out: %s", id, dep.LeftOut)
		if dep.LeftOut.By != id {
			out.Skipped = fmt.Sprintf("depends on %s, which is left out because of %s: %s", id, dep.LeftOut.By, dep.LeftOut)
		}
		return
	}
	var waits []plan.Wait
	for _, p := range n.includeWhen {
		missing := c.missing(n, p.Refs())
		if len(missing) == 0 {
			value, err := p.Eval(c.vars)
			if err == nil && value != true {
				out.LeftOut = &plan.LeftOut{By: n.ID, Condition: p.Source(), Inputs: c.inputs(p)}
				out.Skipped = out.LeftOut.String()
				return
			}
			if err != nil {
				missing = c.graph.waitsOf(n, err)
			}
		}
		waits = append(waits, missing...)
	}
	out.Waits = distinct(waits)
}

// inputs tells what a condition has read. One that is nothing but a path says so itself.
func (c *composition) inputs(p *expr.Program) []string {
	if _, alone := p.Path(); alone {
		return nil
	}
	var out []string
	for _, r := range p.Refs() {
		// Of a list's items, the list is told by its size.
		if each := slices.IndexFunc(r.Path, func(s expr.Step) bool { return s.Each }); each >= 0 {
			r.Path = r.Path[:each]
		}
		text := r.String() + " " + c.input(r)
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	if more := len(out) - mostInputs; more > 0 {
		out = append(out[:mostInputs], fmt.Sprintf("and %d more", more))
	}
	return out
}

// mostInputs bounds the inputs that are told, longestInput the bytes of each.
const (
	mostInputs   = 5
	longestInput = 100
)

func (c *composition) input(r expr.Ref) string {
	value, there := c.graph.env.Value(r, c.vars)
	if !there {
		return "is not there"
	}
	if c.graph.conceals([]expr.Ref{r}) {
		return "is " + hidden
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
		return "can't be told"
	}
	return "is " + diag.Cut(string(raw), longestInput)
}
