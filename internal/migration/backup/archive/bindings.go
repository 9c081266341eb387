package archive

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
)

// Owner returns the managed resource that a Binding belongs to, with its UID.
func Owner(b *unstructured.Unstructured) (key object.Key, uid types.UID) {
	owner, _, _ := unstructured.NestedMap(b.Object, "spec", "owner")
	text := func(field string) string {
		s, _ := owner[field].(string)
		return s
	}
	gvk := schema.FromAPIVersionAndKind(text("apiVersion"), text("kind"))
	return object.Key{Group: gvk.Group, Kind: gvk.Kind, Namespace: text("namespace"), Name: text("name")}, types.UID(text("uid"))
}

// OwnerKind returns the kind of the managed resource.
func OwnerKind(b *unstructured.Unstructured) schema.GroupVersionKind {
	version, _, _ := unstructured.NestedString(b.Object, "spec", "owner", "apiVersion")
	kind, _, _ := unstructured.NestedString(b.Object, "spec", "owner", "kind")
	return schema.FromAPIVersionAndKind(version, kind)
}

// Phase returns the phase of a Binding.
func Phase(b *unstructured.Unstructured) espalier.BindingPhase {
	phase, _, _ := unstructured.NestedString(b.Object, "spec", "phase")
	return espalier.BindingPhase(phase)
}

// ReservesKey reports whether a Binding without a managed resource still reserves its key, so that
// it is exported anyway.
func ReservesKey(b *unstructured.Unstructured) bool {
	switch Phase(b) {
	case espalier.BindingReserved, espalier.BindingReleased:
		return false
	default:
		return true
	}
}

// IsOwnerDeleted reports whether the managed resource of a Binding is being deleted, or was deleted.
func IsOwnerDeleted(b *unstructured.Unstructured) bool {
	switch Phase(b) {
	case espalier.BindingDeleting, espalier.BindingTombstone, espalier.BindingReleased:
		return true
	default:
		return false
	}
}

// uidPrefix is the prefix of Bindings' names that derive from their managed resource's UID.
const uidPrefix = "u-"

// HasOperation reports whether a Binding has an operation in flight.
func HasOperation(b *unstructured.Unstructured) bool {
	operation, _, _ := unstructured.NestedMap(b.Object, "spec", "operation")
	return operation != nil
}

// Reserves returns what a Binding reserves for its managed resource: the name of the external
// resource and its identity. A shared Binding reserves nothing.
func Reserves(b *unstructured.Unstructured) []string {
	spec, _, _ := unstructured.NestedMap(b.Object, "spec")
	if shared, _ := spec["shared"].(bool); shared {
		return nil
	}
	key, _ := spec["key"].(map[string]any)
	text := func(in map[string]any, field string) string {
		s, _ := in[field].(string)
		return s
	}
	var out []string
	for _, name := range []string{text(key, "name"), text(spec, "ref")} {
		if name != "" {
			out = append(out, fmt.Sprintf("%s %q in %s", text(key, "type"), name, text(key, "scope")))
		}
	}
	return slices.Compact(out)
}

// IsImportedOperation reports whether the controllers resolve a Binding's operation in flight by
// observation. Those of earlier releases do not keep the field.
func IsImportedOperation(b *unstructured.Unstructured) bool {
	imported, _, _ := unstructured.NestedBool(b.Object, "spec", "operation", "imported")
	return imported
}
