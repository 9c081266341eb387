package plan

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
)

// WantedInventory holds the kinds and namespaces of the children that an instance has and is going to have, as far as
// they are known. ChildKinds are the kinds that its composer names; a kind with all of its nodes left out doesn't count
// until objects of it exist.
func WantedInventory(childKinds []schema.GroupVersionKind, nodes []Node, steps []Step, owned map[string][]*unstructured.Unstructured,
	namespace string) inventory.Inventory {
	var kinds []schema.GroupKind
	skipped := skippedKinds(nodes)
	for _, gvk := range childKinds {
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

// All nodes of these kinds are left out.
func skippedKinds(nodes []Node) map[schema.GroupKind]bool {
	out := map[schema.GroupKind]bool{}
	for _, n := range nodes {
		if n.External || n.Variable {
			continue
		}
		others, known := out[n.Kind.GroupKind()]
		out[n.Kind.GroupKind()] = n.SkipMessage != "" && (others || !known)
	}
	return out
}
