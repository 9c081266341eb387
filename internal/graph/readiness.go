package graph

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/instance/health"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// readiness reports whether the object of a node or of an item is ready; messages name it by id. The author's
// readyWhen decides if it is set. An instance of a definition is ready when its Ready condition is true for its
// current generation. For all other objects the definition's rule decides; by default they are ready when they exist.
func (c *composition) readiness(n *Node, id string, o *unstructured.Unstructured) (bool, plan.Problem) {
	unready := func(format string, args ...any) (bool, plan.Problem) {
		message := id + " is not ready: " + fmt.Sprintf(format, args...)
		if problem := n.reportedProblem(o); problem != "" {
			message += "; it reports: " + problem
		}
		return false, plan.Problem{Reason: plan.NotReady, Message: message}
	}
	if o.GetDeletionTimestamp() != nil && !n.External {
		return unready("it is being deleted")
	}
	if health.Stale(o) {
		return unready("its status is not yet updated for generation %d", o.GetGeneration())
	}
	if len(n.readyWhen) > 0 {
		for _, p := range n.readyWhen {
			if why := conditionProblem(c.budget, p, map[string]any{n.readyWhenVariable(): o.Object}, n.mayHoldSecret); why != "" {
				return unready("%s", why)
			}
		}
		return true, plan.Problem{}
	}
	var h health.Health
	switch {
	case c.graph.embedded != nil:
		h.Message = c.graph.embedded.Ready(o)
		h.Ready = h.Message == ""
	case n.Nested:
		h = health.Instance(o)
	case c.graph.readiness == v1alpha1.ReadinessHealth:
		h = health.Of(o)
	default:
		h.Ready = true
	}
	switch {
	case !h.Ready && n.readsSecret && n.mayQuoteItsSpec():
		return unready("its status says why; the message is %s", strings.Trim(redacted, "()"))
	case !h.Ready:
		return unready("%s", h.Message)
	}
	return true, plan.Problem{}
}

// mayQuoteItsSpec reports whether the status of an object may quote its spec. The messages about built-in kinds do
// not: they are derived from numbers and reasons.
func (n *Node) mayQuoteItsSpec() bool { return strings.Contains(n.Kind.Group, ".") }

// reportedProblem is the problem that the status of a node's object reports; empty if it
// may contain Secret data.
func (n *Node) reportedProblem(o *unstructured.Unstructured) string {
	if o == nil || n.mayHoldSecret {
		return ""
	}
	return diag.TruncateMiddle(health.SyncProblem(o), maxReportedProblem)
}

// addWaitDetails adds to waits for fields of a node the problem that the node's object
// reports.
func (c *composition) addWaitDetails(waits []plan.Wait) {
	for i, w := range waits {
		root := rootOf(w.On)
		dep, source := c.nodes[root], c.graph.node(root)
		switch {
		case w.Detail != "" || dep == nil || source == nil:
		case source.Variable && len(dep.Waits) > 0:
			waits[i].Detail = diag.TruncateMiddle(dep.Waits[0].String(), maxReportedProblem)
		case w.Reason == plan.WaitingForField:
			waits[i].Detail = source.reportedProblem(dep.Observed)
		}
	}
}

// maxReportedProblem is in bytes.
const maxReportedProblem = 300

// conditionProblem returns an empty string if the condition is true.
func conditionProblem(b *expr.Budget, p *expr.Program, vars map[string]any, hide bool) string {
	value, err := p.EvalWithin(b, vars)
	var pending *expr.Pending
	switch {
	case err != nil && hide && errors.As(err, &pending):
		shown := expr.Pending{Refs: make([]expr.Ref, len(pending.Refs))}
		for i, r := range pending.Refs {
			shown.Refs[i] = asWritten(r, p.Refs())
		}
		return fmt.Sprintf("%s: %v", p.Source(), &shown)
	case err != nil && hide:
		return redactedText(err)
	case err != nil:
		return fmt.Sprintf("%s: %v", p.Source(), err)
	case value != true:
		return fmt.Sprintf("%s is false", p.Source())
	}
	return ""
}

// waitsForDependencies lists waits for the dependencies that do not exist or are not ready, of those that are read in every case.
// If a field of such a node is missing, the wait names the field instead of the node.
// Missing fields of ready nodes are found by evaluation, which knows what is really read.
func (c *composition) waitsForDependencies(n *Node, refs []expr.Ref) []plan.Wait {
	var waits []plan.Wait
	for _, id := range n.Dependencies {
		if !c.mustBecomeReady(n, id) {
			continue
		}
		read, named := false, false
		for _, r := range refs {
			if r.Root != id || r.Conditional {
				continue
			}
			read = true
			if !c.graph.node(id).Collection && !r.Optional && !c.graph.scope.Present(r, c.vars) {
				named = true
				waits = append(waits, c.graph.pathWait(n, r))
			}
		}
		if read && !named {
			waits = append(waits, c.readinessWait(n, id))
		}
	}
	return waits
}

// waitsForFieldsOnly reports whether waitFor names the fields that n needs of a nested instance: then n waits for
// these fields and not for the readiness of the instance.
func (c *composition) waitsForFieldsOnly(n *Node, dep *plan.Node) bool {
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

func (c *composition) waitsForFields(n *Node) []plan.Wait {
	var waits []plan.Wait
	for _, f := range n.waitFor {
		w := plan.Wait{Node: n.ID, Reason: plan.WaitingForField, On: f.ref.String(), Timeout: f.timeout, Retries: f.retries}
		value, err := f.value.EvalWithin(c.budget, c.vars)
		switch {
		case err != nil || value == nil || value == "":
			waits = append(waits, w)
		case f.pattern != nil && !f.matches(value):
			w.Detail = fmt.Sprintf("%v does not match %s", c.displayValue(f, value), f.pattern)
			waits = append(waits, w)
		case f.rule != nil:
			if why := conditionProblem(c.budget, f.rule, map[string]any{"self": value}, c.graph.mayReadSecret([]expr.Ref{f.ref})); why != "" {
				w.Detail = fmt.Sprintf("%v: %s", c.displayValue(f, value), why)
				waits = append(waits, w)
			}
		}
	}
	return waits
}

// displayValue is the value as a message may show it.
func (c *composition) displayValue(f waitFor, value any) any {
	if c.graph.mayReadSecret([]expr.Ref{f.ref}) {
		return redacted
	}
	return value
}

func (f waitFor) matches(value any) bool {
	text, ok := value.(string)
	return ok && f.pattern.MatchString(text)
}
