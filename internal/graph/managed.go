package graph

import (
	"cmp"
	"maps"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

// The objects that a status lists at most, as its schema says. All objects have labels.
const (
	maxListed        = 1000 // of an instance
	MaxListedOfGraph = 5000 // of a Graph
)

// managed lists the objects of the nodes in the order of their application. Those of a node that may have objects which
// were not observed are listed as they were before.
func (c *composition) managed() []any {
	before, now := map[string][]any{}, map[string][]any{}
	reported, _, _ := unstructured.NestedSlice(c.facts.Instance.Object, "status", report.ManagedField)
	for _, entry := range reported {
		fields, _ := entry.(map[string]any)
		id, _ := fields["nodeID"].(string)
		before[id] = append(before[id], entry)
	}
	blind := map[string]bool{} // nodes that may have objects which were not observed
	for _, n := range c.desired.Nodes {
		id := cmp.Or(n.Collection, n.ID)
		_, unreadable := c.facts.UnreadableOwned[n.Kind]
		switch {
		case n.External, n.Variable:
		case unreadable, n.Observed == nil && n.Object == nil && n.SkipMessage == "":
			blind[id] = true
		case n.Observed != nil:
			now[id] = append(now[id], managedEntry(id, n.Observed))
		}
	}
	out := []any{}
	for _, n := range c.graph.Nodes {
		if blind[n.ID] {
			out = append(out, before[n.ID]...)
		} else {
			out = append(out, now[n.ID]...)
		}
	}
	return out[:min(len(out), c.graph.Listed)]
}

func managedEntry(node string, o *unstructured.Unstructured) map[string]any {
	entry := map[string]any{"nodeID": node, "apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "name": o.GetName(), "uid": string(o.GetUID())}
	if namespace := o.GetNamespace(); namespace != "" {
		entry["namespace"] = namespace
	}
	return entry
}

// compileInventory adds the list of objects to the schema of the status, if the author asks for it.
func compileInventory(c *compilation) {
	switch c.spec.Inventory {
	case "", v1alpha1.InventoryLabels:
		return
	case v1alpha1.InventoryStatus:
	default:
		c.problems.Addf("spec.inventory", "is %q; it can be Labels or Status", c.spec.Inventory)
		return
	}
	if c.graph.Status == nil {
		return
	}
	if _, declared := c.graph.Status.Properties[report.ManagedField]; declared {
		c.problems.Addf("spec.schema.status."+report.ManagedField, "is the list of objects that spec.inventory: Status adds; rename the field")
		return
	}
	c.graph.Listed = maxListed
	status := *c.graph.Status
	status.Properties = maps.Clone(status.Properties)
	if status.Properties == nil {
		status.Properties = map[string]extv1.JSONSchemaProps{}
	}
	status.Properties[report.ManagedField] = managedSchema()
	c.graph.Status = &status
}

func managedSchema() extv1.JSONSchemaProps {
	text := func(description string) extv1.JSONSchemaProps {
		return extv1.JSONSchemaProps{Type: "string", Description: description}
	}
	most := int64(maxListed)
	return extv1.JSONSchemaProps{
		Type: "array", Description: "The objects of the instance, in the order of their application; a long list is cut", MaxItems: &most,
		Items: &extv1.JSONSchemaPropsOrArray{Schema: &extv1.JSONSchemaProps{Type: "object", Properties: map[string]extv1.JSONSchemaProps{
			"nodeID": text("The resource of the definition"), "apiVersion": text(""), "kind": text(""), "namespace": text(""), "name": text(""), "uid": text(""),
		}}},
	}
}
