package archive

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
)

// Owner is the managed resource that a Binding belongs to, and the incarnation of it.
func Owner(b *unstructured.Unstructured) (key object.Key, uid types.UID) {
	owner, _, _ := unstructured.NestedMap(b.Object, "spec", "owner")
	text := func(field string) string {
		s, _ := owner[field].(string)
		return s
	}
	gvk := schema.FromAPIVersionAndKind(text("apiVersion"), text("kind"))
	return object.Key{Group: gvk.Group, Kind: gvk.Kind, Namespace: text("namespace"), Name: text("name")}, types.UID(text("uid"))
}

// OwnerKind is the kind of the managed resource, in its version.
func OwnerKind(b *unstructured.Unstructured) schema.GroupVersionKind {
	version, _, _ := unstructured.NestedString(b.Object, "spec", "owner", "apiVersion")
	kind, _, _ := unstructured.NestedString(b.Object, "spec", "owner", "kind")
	return schema.FromAPIVersionAndKind(version, kind)
}

// Phase is the phase of a Binding.
func Phase(b *unstructured.Unstructured) espalier.BindingPhase {
	phase, _, _ := unstructured.NestedString(b.Object, "spec", "phase")
	return espalier.BindingPhase(phase)
}

// KeepsKey reports whether a Binding without a managed resource still reserves its key, so that
// it is exported anyway.
func KeepsKey(b *unstructured.Unstructured) bool {
	switch Phase(b) {
	case espalier.BindingReserved, espalier.BindingReleased:
		return false
	default:
		return true
	}
}

// Ends reports whether the managed resource of a Binding is being deleted, or was deleted.
func Ends(b *unstructured.Unstructured) bool {
	switch Phase(b) {
	case espalier.BindingDeleting, espalier.BindingTombstone, espalier.BindingReleased:
		return true
	default:
		return false
	}
}

// ofUID begins the names of Bindings that are named by their managed resource's UID.
const ofUID = "u-"

// For returns the Binding for another incarnation of its managed resource: named by
// that, where it was named by the former one.
func For(b *unstructured.Unstructured, uid types.UID) *unstructured.Unstructured {
	out := b.DeepCopy()
	_, was := Owner(b)
	if b.GetName() == ofUID+string(was) {
		out.SetName(ofUID + string(uid))
	}
	_ = unstructured.SetNestedField(out.Object, string(uid), "spec", "owner", "uid") // it has an owner: Check has seen to that
	return out
}

// IsNamedByUID reports whether a Binding's name derives from its managed resource's UID.
func IsNamedByUID(b *unstructured.Unstructured) bool { return strings.HasPrefix(b.GetName(), ofUID) }

// Agree reports whether an existing Binding has the same owner as an imported one and, if both
// have an identity, the same identity.
func Agree(there, wanted *unstructured.Unstructured) bool {
	a, _ := Owner(there)
	b, _ := Owner(wanted)
	is, _, _ := unstructured.NestedString(there.Object, "spec", "ref")
	want, _, _ := unstructured.NestedString(wanted.Object, "spec", "ref")
	return a == b && (is == want || is == "" || want == "")
}
