package graph

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
)

// paceCall is a condition of propagateWhen that sets the pace of a collection. Its groups are the function, the iterator,
// the id of the collection and the size of a batch.
var paceCall = regexp.MustCompile(`^\$\{\s*(linearly|exponentially)Ready\(\s*(\w+)\s*,\s*(\w+)\s*(?:,\s*([1-9][0-9]{0,5})\s*)?\)\s*\}$`)

func (c *compilation) compilePropagateWhen(d *draft) {
	at := d.at.Field("propagateWhen")
	switch {
	case len(d.source.PropagateWhen) == 0:
		return
	case d.Variable:
		c.problems.Addf(at, noObjectProblem)
		return
	case d.External:
		c.problems.Addf(at, "does not apply to %s: external objects are never written", c.words.reference)
		return
	}
	for i, source := range d.source.PropagateWhen {
		if strings.Contains(source, "linearlyReady(") || strings.Contains(source, "exponentiallyReady(") {
			c.compilePace(d, source, at.Index(i))
		} else if p := c.compileBoolean(d.env, source, at.Index(i)); p != nil {
			c.addPropagateWhen(d, p)
		}
	}
}

func (c *compilation) addPropagateWhen(d *draft, p *expr.Program) {
	for _, r := range p.Refs() {
		if r.Root == d.ID {
			c.problems.Add(diag.Diagnostic{Path: p.At(), Expr: p.Source(), Problem: "reads " + r.String() + " of its own object; only readyWhen may"})
			return
		}
	}
	d.propagateWhen, d.refs = append(d.propagateWhen, p), append(d.refs, p.Refs()...)
}

func (c *compilation) compilePace(d *draft, source string, at object.Path) {
	if d.forEach == nil {
		c.problems.Addf(at, "is the pace of a collection, and the node has no forEach")
		return
	}
	call := paceCall.FindStringSubmatch(source)
	if call == nil || !d.isIterator(call[2]) || d.resolve(call[3]) != d.ID || (call[1] == "linearly") != (call[4] != "") {
		iterator := "item"
		for _, dimension := range d.forEach.dimensions {
			iterator = dimension.iterator
		}
		c.problems.Add(diag.Diagnostic{
			Path: at, Problem: strconv.Quote(source) + " is not a pace of this collection",
			Expected: fmt.Sprintf("${linearlyReady(%s, %s, 3)} or ${exponentiallyReady(%[1]s, %[2]s)}, as a condition of its own", iterator, d.name),
		})
		return
	}
	batch, _ := strconv.Atoi(call[4]) // 0 if it is absent
	d.paces = append(d.paces, plan.Pace{Batch: batch})
}

// holdBack says why the conditions of the node don't let its object change, if they don't.
func (c *composition) holdBack(n *Node, vars map[string]any, out *plan.Node) {
	out.Paces = n.paces
	for _, p := range n.propagateWhen {
		if why := conditionProblem(c.budget, p, vars, c.graph.mayReadSecret(p.Refs())); why != "" {
			out.Held = plan.Problem{Reason: plan.NotPropagated, Message: "propagateWhen does not let the object change: " + why}
			return
		}
	}
}
