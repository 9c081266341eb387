package observe

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// DefinitionOf names the definition of an instance's kind: one without a namespace is a
// ResourceGraphDefinition, one with a namespace a ResourceGroup.
func DefinitionOf(instance *unstructured.Unstructured) (types.NamespacedName, bool) {
	labels := instance.GetLabels()
	name := types.NamespacedName{Namespace: labels[v1alpha1.DefinitionNSLabel], Name: labels[v1alpha1.DefinitionNameLabel]}
	return name, name.Name != "" && ApplySet(instance) != ""
}

// variables are the resources of an instance that are values: only its definition tells.
func (w World) variables(instance *unstructured.Unstructured) (order []string, is map[string]bool) {
	is = map[string]bool{}
	name, ok := DefinitionOf(instance)
	if definition := w.Definitions[name]; ok && definition != nil {
		resources, _, _ := unstructured.NestedSlice(definition.Object, "spec", "resources")
		for _, r := range resources {
			resource, _ := r.(map[string]any)
			id, _ := resource["id"].(string)
			if value := resource["value"]; value != nil && id != "" && !is[id] {
				is[id] = true
				order = append(order, id)
			}
		}
	}
	return order, is
}

// withVariables marks the resources that are values, and adds those of which nothing else
// is told: they are there.
func (w World) withVariables(instance *unstructured.Unstructured, children []Node) []Node {
	order, is := w.variables(instance)
	told := map[string]bool{}
	for i := range children {
		told[children[i].Node] = true
		children[i].Variable = is[children[i].Node] && !children[i].Exists
	}
	for _, id := range order {
		if !told[id] {
			children = append(children, Node{Node: id, Variable: true, Ready: Unsaid, Reason: variable})
		}
	}
	return children
}

// variable is the reason of a row that is a value, and nothing else.
const variable = "Variable"

// settled says that a node is a value that is there.
func (n Node) settled() bool { return n.Variable && len(n.Waits) == 0 && !n.Skipped }
