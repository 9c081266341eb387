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

// role says what an object is to an engine that has updated it. A manager that updates does not
// say on whose behalf.
type role struct {
	// instance says that the object is an instance of the engine's, and wanted that it was
	// written as its parent wants it.
	instance, wanted bool
}

// roleOf derives the role from what else is on the object. Where the engine has applied the
// object as well, that is what the parent wants; the rest is the work of the engine's other
// controllers, such as the one that resolves what a usage selects.
func roleOf(o *unstructured.Unstructured, entries []metav1.ManagedFieldsEntry) role {
	instance := slices.ContainsFunc(o.GetFinalizers(), inventory.IsFinalizer) || inventory.IsInstance(o)
	_, _, claimed := inventory.ClaimedBy(o)
	isChild := !instance || claimed || inventory.Node(o) != ""
	return role{instance: instance, wanted: isChild && !slices.ContainsFunc(entries, isApplied)}
}

func isApplied(e metav1.ManagedFieldsEntry) bool {
	return e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == "" && (e.Manager == claimManager || isComposer(e.Manager))
}

// split parts fields into those that an engine writes on an object for its own sake and
// those that it has because its parent wants it to.
//
// The parent's become fields that are applied, so that they go when the parent drops
// them. What an engine keeps for itself must not go then: a finalizer, the mark of a
// usage, the revision that a composite follows. Where it isn't clear which of both a
// field is, it stays.
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

// ownPaths are where an engine writes for its own sake on any object, and ownInstancePaths
// where it does so on instances besides.
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

// cutAll cuts several paths out of a set.
func cutAll(fields *fieldpath.Set, paths []fieldpath.Path) (rest, cut *fieldpath.Set) {
	rest, cut = fields, &fieldpath.Set{}
	for _, path := range paths {
		var at *fieldpath.Set
		rest, at = ownership.Cut(rest, path)
		cut = cut.Union(at)
	}
	return rest, cut
}
