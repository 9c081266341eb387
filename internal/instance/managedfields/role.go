package managedfields

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	apiextensions "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/protection/v1beta1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/kube/ownership"
)

// role is what an object is to an engine that has updated it: an update doesn't show its purpose.
type role struct {
	// instance says that the object is an instance of the engine, and wanted that its parent's
	// desired state was written to it.
	instance, wanted bool
}

// roleOf derives the role from the object's metadata. If the engine has applied the object too, that is the parent's
// desired state; the updates come from the engine's other controllers, such as the one that resolves the selectors of a
// usage.
func roleOf(o *unstructured.Unstructured, entries []metav1.ManagedFieldsEntry) role {
	instance := slices.ContainsFunc(o.GetFinalizers(), inventory.IsFinalizer) || inventory.IsInstance(o)
	_, _, claimed := inventory.ClaimedBy(o)
	isChild := !instance || claimed || inventory.Node(o) != ""
	return role{instance: instance, wanted: isChild && !slices.ContainsFunc(entries, isApplied)}
}

func isApplied(e metav1.ManagedFieldsEntry) bool {
	return e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == "" && (e.Manager == claimManager || isComposer(e.Manager))
}

// split separates fields that an engine writes on an object on its own behalf from those that the parent desires.
//
// The parent's fields become applied fields, so they are removed when the parent drops them. The engine's own fields
// must not be removed then: a finalizer, the in-use label, the revision of a composite. A field that may be either is
// the engine's own.
func (r role) split(fields *fieldpath.Set) (own, wanted *fieldpath.Set) {
	switch {
	case !r.wanted:
		return fields, &fieldpath.Set{}
	case r.instance:
		wanted, own = cutAll(fields, slices.Concat(ownPaths, ownInstancePaths))
	default:
		wanted, own = cutAll(fields, ownPaths)
	}
	return own, wanted
}

// ownPaths are the fields that an engine writes on its own behalf on any object, and
// ownInstancePaths those that it writes on instances only.
var (
	ownPaths = []fieldpath.Path{
		ownership.Path("metadata", "finalizers"),
		ownership.Path("metadata", "ownerReferences"),
		label(v1beta1.InUseLabel),
		annotation(v1beta1.DeletionAttemptAnnotation),
		annotation(v1beta1.DetailsAnnotation),
	}
	ownInstancePaths = []fieldpath.Path{
		label(apiextensions.CompositeLabel),
		ownership.Path("spec", "compositionRef"),
		ownership.Path("spec", "compositionRevisionRef"),
		ownership.Path("spec", "compositionUpdatePolicy"),
		ownership.Path("spec", "resourceRef"),
		ownership.Path("spec", "resourceRefs"),
		ownership.Path("spec", "writeConnectionSecretToRef"),
		ownership.Path("spec", "crossplane"),
	}
)

func label(name string) fieldpath.Path      { return ownership.Path("metadata", "labels", name) }
func annotation(name string) fieldpath.Path { return ownership.Path("metadata", "annotations", name) }

func cutAll(fields *fieldpath.Set, paths []fieldpath.Path) (rest, cut *fieldpath.Set) {
	rest, cut = fields, &fieldpath.Set{}
	for _, path := range paths {
		var at *fieldpath.Set
		rest, at = ownership.Split(rest, path)
		cut = cut.Union(at)
	}
	return rest, cut
}
