package graph

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/function/call"
	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/plan"
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
		External: make(map[plan.Need]plan.Look, len(c.Given.Resources)),
	}
	for id, r := range c.Observed.Resources {
		facts.Owned[id] = []*unstructured.Unstructured{{Object: r.Object}}
	}
	for key, objects := range c.Given.Resources {
		need, ok := needOf(key)
		if !ok {
			continue // another step's
		}
		look := plan.Look{}
		if len(objects) > 0 {
			look.Object = &unstructured.Unstructured{Object: objects[0]}
		}
		facts.External[need] = look
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
	for i := range d.Nodes {
		n := &d.Nodes[i]
		waits = append(waits, n.Waits...)
		if wanted := c.wanted(n); wanted != nil {
			out.Desired.Resources[n.ID] = call.Resource{Object: wanted.Object, Ready: readiness(n)}
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
		apiVersion, kind := need.Kind.ToAPIVersionAndKind()
		out.Requirements.Resources[keyOfNeed(need)] = call.Selector{APIVersion: apiVersion, Kind: kind, Namespace: need.Namespace, Name: need.Name}
	}
	return out
}

// wanted is the object of a node, nil if there is to be none. One that is there stays
// while it can't be told what it should be.
func (c *composing) wanted(n *plan.Node) *unstructured.Unstructured {
	out := n.Object
	observed, there := c.Observed.Resources[n.ID]
	switch {
	case n.External || n.Variable || n.Skipped != "":
		return nil
	case out == nil && there:
		out = applied(&unstructured.Unstructured{Object: observed.Object})
	case out == nil:
		return nil
	}
	inventory.Place{Layer: n.Layer, DependsOn: n.DependsOn, DeleteAfter: n.DeleteAfter, OnDelete: n.OnDelete}.Annotate(out)
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

// impossible says why nothing can be of a name that was computed.
func impossible(n plan.Need) string {
	if n.Namespace != "" && len(validation.IsDNS1123Label(n.Namespace)) > 0 {
		return fmt.Sprintf("an externalRef to %s names a namespace that can't be: %.80q", n.Kind.Kind, n.Namespace)
	}
	if len(content.IsPathSegmentName(n.Name)) > 0 || strings.ContainsRune(n.Name, ' ') {
		return fmt.Sprintf("an externalRef to %s has a name that can't be: %.80q", n.Kind.Kind, n.Name)
	}
	return ""
}

// needKey begins the keys of what references name.
const needKey = "externalRef "

func keyOfNeed(n plan.Need) string {
	apiVersion, kind := n.Kind.ToAPIVersionAndKind()
	return needKey + strings.Join([]string{apiVersion, kind, n.Namespace, n.Name}, " ")
}

func needOf(key string) (plan.Need, bool) {
	rest, ours := strings.CutPrefix(key, needKey)
	parts := strings.Split(rest, " ")
	if !ours || len(parts) != 4 {
		return plan.Need{}, false
	}
	return plan.Need{Kind: schema.FromAPIVersionAndKind(parts[0], parts[1]), Namespace: parts[2], Name: parts[3]}, true
}
