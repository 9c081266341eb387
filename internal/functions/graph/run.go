package graph

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/functions/call"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// Resolved is the condition that says whether every resource of the graph could be
// rendered, and what is waited for if not.
const Resolved = "GraphResolved"

// Run composes the graph that is the request's input. A graph that is wrong is one Fatal
// result with all that is wrong with it.
func (f *Function) Run(r call.Request) call.Response {
	p := f.parse(r.Input)
	if len(p.problems) > 0 {
		return call.Fails(r, "invalid graph: "+call.Told(p.problems.Sorted()))
	}
	composite := &unstructured.Unstructured{Object: r.Observed.Composite.Object}
	if composite.Object == nil {
		composite.Object = map[string]any{}
	}
	c := &composing{Request: r, composite: composite}
	if c.requireSchemas(append([]schema.GroupVersionKind{composite.GroupVersionKind()}, p.uses...)) {
		return call.Response{Desired: r.Desired, Context: r.Context, Requirements: c.requirements}
	}
	compiled := f.compile(p, composite.GroupVersionKind(), r.Given.Schemas)
	if len(compiled.problems) > 0 {
		return call.Fails(r, "invalid graph: "+call.Told(compiled.problems.Sorted()))
	}
	return c.answer(compiled.graph.Compose(c.facts()))
}

// composing is one call.
type composing struct {
	call.Request
	composite    *unstructured.Unstructured
	requirements call.Requirements
}

// requireSchemas asks for the schemas of kinds, where anybody tells them, and says
// whether they have to be waited for.
func (c *composing) requireSchemas(kinds []schema.GroupVersionKind) (wait bool) {
	if !c.Given.Typed {
		return false
	}
	c.requirements.Schemas = map[string]call.Kind{}
	for _, gvk := range kinds {
		if gvk.Version == "" || gvk.Kind == "" {
			continue // there is no composite
		}
		apiVersion, kind := gvk.ToAPIVersionAndKind()
		c.requirements.Schemas[keyOf(gvk)] = call.Kind{APIVersion: apiVersion, Kind: kind}
		if _, known := c.Given.Schemas[keyOf(gvk)]; !known {
			wait = true
		}
	}
	return wait
}

// facts are what is observed.
func (c *composing) facts() plan.Facts {
	facts := plan.Facts{
		Instance: c.composite,
		Owned:    make(map[string][]*unstructured.Unstructured, len(c.Observed.Resources)),
		External: make(map[plan.Need]plan.Lookup, len(c.Given.Resources)),
	}
	for _, id := range slices.Sorted(maps.Keys(c.Observed.Resources)) {
		o := &unstructured.Unstructured{Object: c.Observed.Resources[id].Object}
		facts.Owned[id] = append(facts.Owned[id], o)
		if collection, item := collectionOf(id); item {
			facts.Owned[collection] = append(facts.Owned[collection], o)
		}
	}
	for key, objects := range c.Given.Resources {
		if need, ours := needOf(key); ours {
			facts.External[need] = lookOf(need, objects)
		}
	}
	return facts
}

// answer says what of it is wanted.
func (c *composing) answer(d plan.Desired) call.Response {
	out := call.Response{Desired: c.Desired, Context: c.Context}
	if out.Desired.Resources == nil {
		out.Desired.Resources = map[string]call.Resource{}
	}
	var waits []plan.Wait
	names := c.namesOf(d.Nodes)
	for i := range d.Nodes {
		n := &d.Nodes[i]
		waits = append(waits, n.Waits...)
		if n.Refused.Reason != "" {
			waits = append(waits, plan.Wait{Node: n.ID, Reason: n.Refused.Reason, On: "its items", Detail: n.Refused.Message})
		}
		for name, wanted := range c.wanted(n) {
			place := inventory.Place{Layer: n.Layer, DependsOn: named(n.DependsOn, names), DeleteAfter: named(n.DeleteAfter, names), OnDelete: n.OnDelete}
			place.Annotate(wanted)
			if _, said := out.Desired.Resources[name]; !said || n.ID == name {
				out.Desired.Resources[name] = call.Resource{Object: wanted.Object, Ready: readiness(n)}
			}
		}
	}
	if len(waits) > 0 {
		out.Desired.Composite.Ready = call.False // whatever is there is not all
	}
	c.addStatus(&out.Desired.Composite, d.Status)
	for _, why := range d.Unresolved {
		out.Results = append(out.Results, call.Result{Severity: call.Warning, Message: strings.ReplaceAll(why, statusInDefinition, statusInInput)})
	}
	for _, w := range waits {
		if w.Reason.IsError() {
			out.Results = append(out.Results, call.Result{Severity: call.Warning, Message: w.String()})
		}
	}
	out.Conditions = []call.Condition{resolved(waits)}
	out.Requirements = c.requirements
	for _, need := range d.Needs {
		if what := impossible(need); what != "" {
			out.Results = append(out.Results, call.Result{Severity: call.Warning, Message: what})
			continue
		}
		if out.Requirements.Resources == nil {
			out.Requirements.Resources = map[string]call.Selector{}
		}
		out.Requirements.Resources[keyOfNeed(need)] = selectorOf(need)
	}
	if d.AuthorConditions != nil {
		c.addConditions(&out, d.AuthorConditions(nil))
	}
	return out
}

func readiness(n *plan.Node) call.Ready {
	if n.Observed != nil && n.Ready && len(n.Waits) == 0 {
		return call.True
	}
	return call.False
}

// addStatus puts the author's status onto what steps before have said of the composite.
func (c *composing) addStatus(desired *call.Resource, status map[string]any) {
	if desired.Object == nil {
		desired.Object = map[string]any{}
	}
	for _, field := range []string{"apiVersion", "kind"} {
		if v, ok := c.composite.Object[field]; ok {
			desired.Object[field] = v
		}
	}
	if len(status) > 0 {
		before, _ := desired.Object["status"].(map[string]any)
		desired.Object["status"] = merged(before, status)
	}
}

// merged is one object with the fields of another put into it.
func merged(into, from map[string]any) map[string]any {
	out := maps.Clone(into)
	if out == nil {
		out = map[string]any{}
	}
	for key, value := range from {
		below, isMap := value.(map[string]any)
		before, wasMap := out[key].(map[string]any)
		if isMap && wasMap {
			value = merged(before, below)
		}
		out[key] = value
	}
	return out
}

// Where the status stands in a definition, and where in the input.
const (
	statusInDefinition = "spec.schema.status"
	statusInInput      = "spec.status"
)

// told is how many waits a condition tells.
const told = 5

// resolved says what is waited for, what is somebody's to solve before all.
func resolved(waits []plan.Wait) call.Condition {
	if len(waits) == 0 {
		return call.Condition{Type: Resolved, Status: call.StatusTrue, Reason: "Resolved"}
	}
	first := waits[0]
	if i := slices.IndexFunc(waits, func(w plan.Wait) bool { return w.Reason.IsError() }); i >= 0 {
		first = waits[i]
	}
	texts := []string{first.String()}
	for _, w := range waits {
		if len(texts) < told && w != first {
			texts = append(texts, w.String())
		}
	}
	if more := len(waits) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return call.Condition{Type: Resolved, Status: call.StatusFalse, Reason: string(first.Reason), Message: diag.Cut(strings.Join(texts, "; "), 2000)}
}
