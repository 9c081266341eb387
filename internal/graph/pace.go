package graph

import (
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

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
		c.addDefaultPace(d)
		return
	case d.Variable:
		c.problems.Addf(at, noObjectProblem)
		return
	case d.External:
		c.problems.Addf(at, "does not apply to %s: external objects are never written", c.words.reference)
		return
	}
	env := d.env.WithProgress()
	for i, source := range d.source.PropagateWhen {
		if strings.Contains(source, "linearlyReady(") || strings.Contains(source, "exponentiallyReady(") {
			c.compilePace(d, source, at.Index(i))
		} else if p := c.compileBoolean(env, source, at.Index(i)); p != nil {
			c.addPropagateWhen(d, p)
		}
	}
}

// addDefaultPace has the items of a collection of a definition change one after the other if they say when they are ready.
func (c *compilation) addDefaultPace(d *draft) {
	if d.forEach != nil && !d.External && !d.Variable && len(d.source.ReadyWhen) > 0 && c.graph.embedded == nil && c.graph.standalone == nil {
		d.paces = []plan.Pace{{Default: true}}
	}
}

// addPropagateWhen adds a condition. One of a collection can read all its objects: that is no dependency.
func (c *compilation) addPropagateWhen(d *draft, p *expr.Program) {
	for _, r := range p.Refs() {
		switch {
		case r.Root != d.ID:
			d.refs = append(d.refs, r)
		case d.forEach == nil:
			c.problems.Add(diag.Diagnostic{Path: p.At(), Expr: p.Source(), Problem: "reads " + r.String() + " of its own object; only readyWhen may"})
			return
		}
	}
	d.propagateWhen = append(d.propagateWhen, p)
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

// setPropagation sets the paces of the node's collection, and the conditions that the plan evaluates if the object is to change.
func (c *composition) setPropagation(n *Node, vars map[string]any, out *plan.Node) {
	if out.Paces = n.paces; len(n.propagateWhen) == 0 {
		return
	}
	vars = maps.Clone(vars) // its iterators have other values for the next item
	out.Hold = func(progress map[types.UID]plan.Progress) (plan.Problem, time.Duration) {
		if n.forEach != nil {
			if vars[n.ID] = c.vars[n.ID]; vars[n.ID] == nil {
				vars[n.ID] = []any{} // no item exists
			}
		}
		c.budget.SetTime(c.facts.Now) // what else reads the time is known already
		c.budget.SetProgress(func(o map[string]any) (bool, bool, bool) {
			uid := (&unstructured.Unstructured{Object: o}).GetUID()
			at, known := progress[uid]
			if !known {
				at, known = c.selected[uid]
			}
			return at.Ready, at.Updated, known
		})
		for _, p := range n.propagateWhen {
			if why := conditionProblem(c.budget, p, vars, c.graph.mayReadSecret(p.Refs())); why != "" {
				return plan.Problem{Reason: plan.NotPropagated, Message: "propagateWhen does not let the object change: " + why}, c.untilNextChange()
			}
		}
		return plan.Problem{}, 0
	}
}
