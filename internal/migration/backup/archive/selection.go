package archive

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
)

// Selection selects the objects that are exported. The zero Selection selects all.
type Selection struct {
	// Namespaces are the namespaces whose objects are exported, with children in other namespaces.
	// If it is empty, all namespaces and cluster-scoped objects are exported.
	Namespaces []string `json:"namespaces,omitempty"`
	// Definitions are the definitions that are exported, with those of the kinds that they compose
	// and the instances of all of them. If it is empty, all are exported, and managed resources
	// that belong to no instance.
	Definitions []string `json:"definitions,omitempty"`
}

// IncludesNamespace reports whether objects of a namespace are exported; the namespace of
// cluster-scoped objects is empty.
func (s Selection) IncludesNamespace(namespace string) bool {
	return len(s.Namespaces) == 0 || slices.Contains(s.Namespaces, namespace)
}

// IncludesManaged reports whether a managed resource is exported, given the exported instances.
// Their children are exported from all namespaces, since they would be created again otherwise.
func (s Selection) IncludesManaged(o *unstructured.Unstructured, instances map[object.Key]Parent) bool {
	if key, _, ok := inventory.InstanceOf(o); ok {
		if _, selected := instances[key]; selected {
			return true
		}
	}
	return len(s.Definitions) == 0 && s.IncludesNamespace(o.GetNamespace())
}
