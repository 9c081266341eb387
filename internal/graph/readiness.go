package graph

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/instance/health"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// readiness tells whether a node's object is ready, which is called by the id of the
// node or of the item. The author's readyWhen
// decides where there is one; an instance of a definition is ready when its
// Ready condition is true for its current generation; everything else by the
// definition's rule, which by default is that it exists.
func (c *composition) readiness(n *Node, id string, o *unstructured.Unstructured) (bool, plan.Problem) {
	unready := func(format string, args ...any) (bool, plan.Problem) {
		message := id + " is not ready: " + fmt.Sprintf(format, args...)
		if complaint := n.complaint(o); complaint != "" {
			message += "; it says " + complaint
		}
		return false, plan.Problem{Reason: plan.NotReady, Message: message}
	}
	if o.GetDeletionTimestamp() != nil && !n.External {
		return unready("it is being deleted")
	}
	if health.Stale(o) {
		return unready("its status tells of an older generation than %d", o.GetGeneration())
	}
	if len(n.readyWhen) > 0 {
		for _, p := range n.readyWhen {
			if why := unmet(p, map[string]any{n.self(): o.Object}, n.conceals); why != "" {
				return unready("%s", why)
			}
		}
		return true, plan.Problem{}
	}
	var h health.Health
	switch {
	case c.graph.guest != nil:
		h.Message = c.graph.guest.Ready(o)
		h.Ready = h.Message == ""
	case n.Nested:
		h = health.Instance(o)
	case c.graph.readiness == v1alpha1.ReadinessHealth:
		h = health.Of(o)
	default:
		h.Ready = true
	}
	if !h.Ready {
		return unready("%s", h.Message)
	}
	return true, plan.Problem{}
}

// complaint is what a node's object says is wrong with it, if that may be told.
func (n *Node) complaint(o *unstructured.Unstructured) string {
	if o == nil || n.conceals {
		return ""
	}
	return diag.Shorten(health.Complaint(o), longestComplaint)
}

// passOn adds to waits for fields of a node what that node's object says is wrong.
func (c *composition) passOn(waits []plan.Wait) {
	for i, w := range waits {
		root := rootOf(w.On)
		dep, source := c.nodes[root], c.graph.node(root)
		switch {
		case w.Detail != "" || dep == nil || source == nil:
		case source.Variable && len(dep.Waits) > 0:
			waits[i].Detail = diag.Shorten(dep.Waits[0].String(), longestComplaint)
		case w.Reason == plan.WaitingForField:
			waits[i].Detail = source.complaint(dep.Observed)
		}
	}
}

// longestComplaint bounds what is passed on of it, in bytes.
const longestComplaint = 300

// unmet says why a condition doesn't hold; empty when it does.
func unmet(p *expr.Program, vars map[string]any, conceal bool) string {
	value, err := p.Eval(vars)
	var pending *expr.Pending
	switch {
	case err != nil && conceal && !errors.As(err, &pending):
		return fmt.Sprintf("%s: has no value %s", p.Source(), hidden)
	case err != nil:
		return fmt.Sprintf("%s: %v", p.Source(), err)
	case value != true:
		return fmt.Sprintf("%s is false", p.Source())
	}
	return ""
}

// missing lists the nodes that n reads and that aren't there or aren't ready.
// Where a field is missing as well, it is named rather than its node. What a
// ready node lacks is found by evaluation, which knows what is read in the end.
func (c *composition) missing(n *Node, refs []expr.Ref) []plan.Wait {
	var waits []plan.Wait
	for _, id := range n.Dependencies {
		dep := c.nodes[id]
		if dep.Ready || c.waitsInstead(n, dep) {
			continue
		}
		if c.graph.node(id).Collection {
			waits = append(waits, plan.Wait{Node: n.ID, Reason: plan.WaitingForReadiness, On: id, Detail: dep.Unready.Message})
			continue
		}
		read, named := false, false
		for _, r := range refs {
			if r.Root != id {
				continue
			}
			read = true
			if !r.Optional && !c.graph.env.Present(r, c.vars) {
				named = true
				waits = append(waits, fieldWait(n, r))
			}
		}
		if read && !named {
			waits = append(waits, plan.Wait{Node: n.ID, Reason: plan.WaitingForReadiness, On: id})
		}
	}
	return waits
}

// waitsInstead says whether the node's author named the fields that it needs of
// a nested instance: then those decide, and not the readiness of the whole.
func (c *composition) waitsInstead(n *Node, dep *plan.Node) bool {
	source := c.graph.node(dep.ID)
	if dep.Observed == nil || !source.Nested || len(source.readyWhen) > 0 {
		return false
	}
	for _, w := range n.waitFor {
		if w.ref.Root == dep.ID {
			return true
		}
	}
	return false
}

// waitFor lists the fields that the author named and that aren't there, or not
// as they should be.
func (c *composition) waitFor(n *Node) []plan.Wait {
	var waits []plan.Wait
	for _, f := range n.waitFor {
		w := plan.Wait{Node: n.ID, Reason: plan.WaitingForField, On: f.ref.String(), Timeout: f.timeout, Retries: f.retries}
		value, err := f.value.Eval(c.vars)
		switch {
		case err != nil || value == nil || value == "":
			waits = append(waits, w)
		case f.pattern != nil && !f.matches(value):
			w.Detail = fmt.Sprintf("%v does not match %s", c.told(f, value), f.pattern)
			waits = append(waits, w)
		case f.rule != nil:
			if why := unmet(f.rule, map[string]any{"self": value}, c.graph.conceals([]expr.Ref{f.ref})); why != "" {
				w.Detail = fmt.Sprintf("%v: %s", c.told(f, value), why)
				waits = append(waits, w)
			}
		}
	}
	return waits
}

// told is the value as a message may tell it.
func (c *composition) told(f waitFor, value any) any {
	if c.graph.conceals([]expr.Ref{f.ref}) {
		return hidden
	}
	return value
}

func (f waitFor) matches(value any) bool {
	text, ok := value.(string)
	return ok && f.pattern.MatchString(text)
}
