package plan

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
)

// WantedInventory is where the children of an instance in a namespace are and will be, as far
// as that is known. Written are the kinds that its composer names; those of which all nodes are
// left out don't count before objects of them are there.
func WantedInventory(written []schema.GroupVersionKind, nodes []Node, steps []Step, owned map[string][]*unstructured.Unstructured, namespace string) inventory.Inventory {
	var kinds []schema.GroupKind
	skipped := skippedKinds(nodes)
	for _, gvk := range written {
		if !skipped[gvk.GroupKind()] {
			kinds = append(kinds, gvk.GroupKind())
		}
	}
	inv := inventory.Of(kinds)
	add := func(o *unstructured.Unstructured) {
		inv.Kinds[o.GroupVersionKind().GroupKind()] = struct{}{}
		if ns := o.GetNamespace(); ns != "" && ns != namespace {
			inv.Namespaces[ns] = struct{}{}
		}
	}
	for _, step := range steps {
		if step.Object != nil {
			add(step.Object)
		}
	}
	for _, children := range owned {
		for _, child := range children {
			add(child)
		}
	}
	return inv
}

// skippedKinds are the kinds of which all nodes are left out.
func skippedKinds(nodes []Node) map[schema.GroupKind]bool {
	out := map[schema.GroupKind]bool{}
	for _, n := range nodes {
		if n.External || n.Variable {
			continue
		}
		others, known := out[n.Kind.GroupKind()]
		out[n.Kind.GroupKind()] = n.Skipped != "" && (others || !known)
	}
	return out
}
