package graph

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/functions/call"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// Resolved is the type of the condition that is True if every resource of the graph is
// rendered, and otherwise lists what resources wait for.
const Resolved = "GraphResolved"

// Run composes the graph in the request's input. An invalid graph is one Fatal result that
// lists all problems.
func (f *Function) Run(r call.Request) call.Response {
	p := f.parse(r.Input)
	if len(p.problems) > 0 {
		return call.FatalResponse(r, "invalid graph: "+call.FormatProblems(p.problems.Sorted()))
	}
	composite := &unstructured.Unstructured{Object: r.Observed.Composite.Object}
	if composite.Object == nil {
		composite.Object = map[string]any{}
	}
	r.Observed.Resources = f.dialect.nodes(r.Observed.Resources, p.spec)
	c := &composition{Request: r, composite: composite, dialect: f.dialect, spec: p.spec}
	if c.requireSchemas(append([]schema.GroupVersionKind{composite.GroupVersionKind()}, p.kinds...)) {
		return call.Response{Desired: r.Desired, Context: r.Context, Requirements: c.requirements}
	}
	compiled := f.compile(p, composite.GroupVersionKind(), r.Required.Schemas)
	if len(compiled.problems) > 0 {
		return call.FatalResponse(r, "invalid graph: "+call.FormatProblems(compiled.problems.Sorted()))
	}
	out := c.respond(compiled.graph.Compose(c.facts()))
	for _, output := range compiled.graph.SecretOutputs {
		out.Results = append(out.Results, call.Result{Severity: call.Warning, Message: output.String()})
	}
	return out
}

type composition struct {
	call.Request
	dialect      *Dialect
	spec         *v1alpha1.DefinitionSpec
	composite    *unstructured.Unstructured
	requirements call.Requirements
}

// requireSchemas requires the schemas of kinds, if the engine supports that. It returns true
// if some of them are not in the request yet.
func (c *composition) requireSchemas(kinds []schema.GroupVersionKind) (wait bool) {
	if !c.Required.SchemasSupported {
		return false
	}
	c.requirements.Schemas = map[string]call.SchemaSelector{}
	for _, gvk := range kinds {
		if gvk.Version == "" || gvk.Kind == "" {
			continue // the request has no composite
		}
		apiVersion, kind := gvk.ToAPIVersionAndKind()
		c.requirements.Schemas[keyOf(gvk)] = call.SchemaSelector{APIVersion: apiVersion, Kind: kind}
		if _, known := c.Required.Schemas[keyOf(gvk)]; !known {
			wait = true
		}
	}
	return wait
}

func (c *composition) facts() plan.Facts {
	facts := plan.Facts{
		Instance: c.composite,
		Owned:    make(map[string][]*unstructured.Unstructured, len(c.Observed.Resources)),
		External: make(map[plan.Need]plan.Lookup, len(c.Required.Resources)),
	}
	for _, id := range slices.Sorted(maps.Keys(c.Observed.Resources)) {
		o := &unstructured.Unstructured{Object: c.Observed.Resources[id].Object}
		facts.Owned[id] = append(facts.Owned[id], o)
		if collection, item := collectionOf(id); item {
			facts.Owned[collection] = append(facts.Owned[collection], o)
		}
	}
	for key, objects := range c.Required.Resources {
		if need, ours := needOf(key); ours {
			facts.External[need] = lookupOf(need, objects)
		}
	}
	return facts
}

func (c *composition) respond(d plan.Desired) call.Response {
	out := call.Response{Desired: c.Desired, Context: c.Context}
	if out.Desired.Resources == nil {
		out.Desired.Resources = map[string]call.Resource{}
	}
	var waits []plan.Wait
	names := c.collectionItemNames(d.Nodes)
	for i := range d.Nodes {
		n := &d.Nodes[i]
		waits = append(waits, n.Waits...)
		if n.Refusal.Reason != "" {
			waits = append(waits, plan.Wait{Node: n.ID, Reason: n.Refusal.Reason, On: "its items", Detail: n.Refusal.Message})
		}
		for name, wanted := range c.desiredObjects(n) {
			place := inventory.Place{
				Layer: n.Layer, OnDelete: n.OnDelete,
				DependsOn:   c.dialect.resourceNames(expandCollections(n.DependsOn, names)),
				DeleteAfter: c.dialect.resourceNames(expandCollections(n.DeleteAfter, names)),
			}
			place.Annotate(wanted)
			resource := c.dialect.resourceName(name)
			if _, exists := out.Desired.Resources[resource]; !exists || n.ID == name {
				out.Desired.Resources[resource] = call.Resource{Object: wanted.Object, Ready: c.readiness(n)}
			}
		}
	}
	if len(waits) > 0 {
		out.Desired.Composite.Ready = call.False // the desired resources are incomplete
	}
	c.addStatus(&out.Desired.Composite, d.Status)
	for _, why := range d.Unresolved {
		out.Results = append(out.Results, call.Result{Severity: call.Warning, Message: c.dialect.text(why)})
	}
	for _, w := range waits {
		if w.Reason.IsError() {
			out.Results = append(out.Results, call.Result{Severity: call.Warning, Message: w.String()})
		}
	}
	out.Conditions = []call.Condition{resolvedCondition(waits)}
	out.Requirements = c.requirements
	for _, need := range d.Needs {
		if what := needProblem(need); what != "" {
			out.Results = append(out.Results, call.Result{Severity: call.Warning, Message: what})
			continue
		}
		if out.Requirements.Resources == nil {
			out.Requirements.Resources = map[string]call.ResourceSelector{}
		}
		out.Requirements.Resources[keyOfNeed(need)] = selectorOf(need)
	}
	if d.AuthorConditions != nil {
		c.addConditions(&out, d.AuthorConditions(nil))
	}
	return out
}

func (c *composition) readiness(n *plan.Node) call.Ready {
	if c.dialect.leavesReadiness && len(n.Waits) == 0 && !slices.ContainsFunc(c.spec.Resources, func(r *v1alpha1.Resource) bool {
		return (r.ID == n.ID || r.ID == n.Collection) && len(r.ReadyWhen) > 0
	}) {
		return call.Unspecified
	}
	if n.Observed != nil && n.Ready && len(n.Waits) == 0 {
		return call.True
	}
	return call.False
}

// addStatus merges the author's status into the desired composite of the steps before.
func (c *composition) addStatus(desired *call.Resource, status map[string]any) {
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
		desired.Object["status"] = mergeMaps(before, status)
	}
}

func mergeMaps(into, from map[string]any) map[string]any {
	out := maps.Clone(into)
	if out == nil {
		out = map[string]any{}
	}
	for key, value := range from {
		below, isMap := value.(map[string]any)
		before, wasMap := out[key].(map[string]any)
		if isMap && wasMap {
			value = mergeMaps(before, below)
		}
		out[key] = value
	}
	return out
}

const maxListedWaits = 5

// resolvedCondition is the condition Resolved. It lists waits; one that is an error, which
// needs the user's attention, comes first.
func resolvedCondition(waits []plan.Wait) call.Condition {
	if len(waits) == 0 {
		return call.Condition{Type: Resolved, Status: call.StatusTrue, Reason: "Resolved"}
	}
	first := waits[0]
	if i := slices.IndexFunc(waits, func(w plan.Wait) bool { return w.Reason.IsError() }); i >= 0 {
		first = waits[i]
	}
	texts := []string{first.String()}
	for _, w := range waits {
		if len(texts) < maxListedWaits && w != first {
			texts = append(texts, w.String())
		}
	}
	if more := len(waits) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return call.Condition{Type: Resolved, Status: call.StatusFalse, Reason: string(first.Reason), Message: diag.Truncate(strings.Join(texts, "; "), 2000)}
}
