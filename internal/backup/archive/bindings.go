package archive

import (
	"strings"

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

// ForOwner returns the Binding for a managed resource that was created again with another UID. A
// name that derives from the former UID changes.
func ForOwner(b *unstructured.Unstructured, uid types.UID) *unstructured.Unstructured {
	out := b.DeepCopy()
	_, former := Owner(b)
	if b.GetName() == uidPrefix+string(former) {
		out.SetName(uidPrefix + string(uid))
	}
	_ = unstructured.SetNestedField(out.Object, string(uid), "spec", "owner", "uid") // Check makes sure that it has an owner
	return out
}

// IsNamedByUID reports whether a Binding's name derives from its managed resource's UID.
func IsNamedByUID(b *unstructured.Unstructured) bool {
	return strings.HasPrefix(b.GetName(), uidPrefix)
}

// SameExternal reports whether an existing Binding has the same owner as an imported one and, if both
// have an identity, the same identity.
func SameExternal(live, wanted *unstructured.Unstructured) bool {
	a, _ := Owner(live)
	b, _ := Owner(wanted)
	ref, _, _ := unstructured.NestedString(live.Object, "spec", "ref")
	wantedRef, _, _ := unstructured.NestedString(wanted.Object, "spec", "ref")
	return a == b && (ref == wantedRef || ref == "" || wantedRef == "")
}
