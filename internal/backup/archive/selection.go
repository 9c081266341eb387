package archive

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
)

// Selection is which objects are exported. The zero Selection is all.
type Selection struct {
	// Namespaces are those whose objects are exported, with what these are composed of
	// elsewhere; without any, all, and what is in none.
	Namespaces []string `json:"namespaces,omitempty"`
	// Definitions are those that are exported, with those whose kinds they compose
	// and the instances of all these; without any, all, and also managed resources
	// that belong to no instance.
	Definitions []string `json:"definitions,omitempty"`
}

// In says whether objects of a namespace are exported; it is empty for what is in
// none.
func (s Selection) In(namespace string) bool {
	return len(s.Namespaces) == 0 || slices.Contains(s.Namespaces, namespace)
}

// TakesManaged says whether a managed resource is exported, where these instances
// are: what an exported instance would make anew is taken wherever it is.
func (s Selection) TakesManaged(o *unstructured.Unstructured, instances map[object.Key]Parent) bool {
	if key, _, ok := inventory.InstanceOf(o); ok {
		if _, taken := instances[key]; taken {
			return true
		}
	}
	return len(s.Definitions) == 0 && s.In(o.GetNamespace())
}
