package observe

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

// DefinitionOf returns the name of the definition of an instance's kind: without a namespace
// it is a ResourceGraphDefinition, with one a ResourceGroup. It is false for an object that
// is not an instance of one.
func DefinitionOf(instance *unstructured.Unstructured) (types.NamespacedName, bool) {
	labels := instance.GetLabels()
	name := types.NamespacedName{Namespace: labels[v1alpha1.DefinitionNSLabel], Name: labels[v1alpha1.DefinitionNameLabel]}
	return name, name.Name != "" && inventory.SetOf(instance) != ""
}

// sourceOf returns the object that an author edits to change what an instance consists of: its definition or its composition; empty if
// the instance does not name it.
func sourceOf(instance *unstructured.Unstructured) report.Object {
	if name, ok := DefinitionOf(instance); ok {
		kind := v1alpha1.ResourceGraphDefinitionKind
		if name.Namespace != "" {
			kind = v1alpha1.ResourceGroupKind
		}
		return report.Object{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind, Namespace: name.Namespace, Name: name.Name}
	}
	for _, path := range [][]string{{"spec", "crossplane", "compositionRef", "name"}, {"spec", "compositionRef", "name"}} {
		if name, _, _ := unstructured.NestedString(instance.Object, path...); name != "" {
			return report.Object{APIVersion: "apiextensions.crossplane.io/v1", Kind: "Composition", Name: name}
		}
	}
	return report.Object{}
}

// variables returns the ids of the nodes that are values, which only the definition says.
func (w ClusterState) variables(instance *unstructured.Unstructured) (order []string, isVariable map[string]bool) {
	isVariable = map[string]bool{}
	name, ok := DefinitionOf(instance)
	if definition := w.Definitions[name]; ok && definition != nil {
		resources, _, _ := unstructured.NestedSlice(definition.Object, "spec", "resources")
		for _, r := range resources {
			resource, _ := r.(map[string]any)
			id, _ := resource["id"].(string)
			if value := resource["value"]; value != nil && id != "" && !isVariable[id] {
				isVariable[id] = true
				order = append(order, id)
			}
		}
	}
	return order, isVariable
}

// withVariables marks the nodes that are values, and adds the values without a wait or a
// problem: these are known.
func (w ClusterState) withVariables(instance *unstructured.Unstructured, children []Node) []Node {
	order, isVariable := w.variables(instance)
	listed := map[string]bool{}
	for i := range children {
		listed[children[i].Node] = true
		children[i].Variable = isVariable[children[i].Node] && !children[i].Exists
	}
	for _, id := range order {
		if !listed[id] {
			children = append(children, Node{Node: id, Variable: true, Ready: NotReported, Reason: reasonVariable})
		}
	}
	return children
}

// reasonVariable is the reason of the row of a value that is known.
const reasonVariable = "Variable"

// isSettledVariable reports whether a node is a value that is known.
func (n Node) isSettledVariable() bool { return n.Variable && len(n.Waits) == 0 && !n.Skipped }
