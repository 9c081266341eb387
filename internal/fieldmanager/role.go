package fieldmanager

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	apiextensions "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/protection/v1beta1"
	"github.com/espalier-dev/espalier/internal/inventory"
)

// role says how an engine has written an object by a manager that doesn't tell.
type role struct {
	// instance says that the object is an instance of the engine's, and wanted that it was
	// written as its parent wants it.
	instance, wanted bool
}

// roleOf tells it by what else the object says. Where the engine has applied the object as
// well, that is what the parent wants; the rest is the work of the engine's other
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
// The parent's are folded into what is applied, so that they go when the parent drops
// them. What an engine keeps for itself must not go then: a finalizer, the mark of a
// usage, the revision that a composite follows. Where it isn't clear which of both a
// field is, it stays.
func (r role) split(fields map[string]any) (own, wanted map[string]any) {
	if !r.wanted {
		return fields, nil
	}
	for _, path := range r.ownPaths() {
		fields, own = move(fields, own, path)
	}
	return own, fields
}

// everywhere is where an engine writes for its own sake on any object, and onInstances
// where it does so on instances besides.
var (
	everywhere = [][]string{
		{"f:metadata", "f:finalizers"},
		{"f:metadata", "f:ownerReferences"},
		{"f:metadata", "f:labels", "f:" + v1beta1.InUseLabel},
		{"f:metadata", "f:annotations", "f:" + v1beta1.DeletionAttemptAnnotation},
		{"f:metadata", "f:annotations", "f:" + v1beta1.DetailsAnnotation},
	}
	onInstances = [][]string{
		{"f:metadata", "f:labels", "f:" + apiextensions.CompositeLabel},
		{"f:spec", "f:compositionRef"},
		{"f:spec", "f:compositionRevisionRef"},
		{"f:spec", "f:compositionUpdatePolicy"},
		{"f:spec", "f:resourceRef"},
		{"f:spec", "f:resourceRefs"},
		{"f:spec", "f:writeConnectionSecretToRef"},
		{"f:spec", "f:crossplane"},
	}
)

// ownPaths are where an engine writes on such an object for its own sake.
func (r role) ownPaths() [][]string {
	if r.instance {
		return slices.Concat(everywhere, onInstances)
	}
	return everywhere
}

// move takes what is at a path out of one set and puts it into another. Sets above the
// path that have nothing left but themselves go. Neither set is changed.
func move(from, into map[string]any, path []string) (left, grown map[string]any) {
	below, there := from[path[0]].(map[string]any)
	if !there {
		return from, into
	}
	left, grown = clone(from), clone(into)
	delete(left, path[0])
	if len(path) == 1 {
		grown[path[0]] = below
		return left, grown
	}
	taken, _ := into[path[0]].(map[string]any)
	rest, taken := move(below, taken, path[1:])
	if len(taken) == 0 {
		return from, into
	}
	grown[path[0]] = taken
	delete(rest, ".")
	if len(rest) > 0 {
		left[path[0]] = rest
	}
	return left, grown
}

func clone(fields map[string]any) map[string]any {
	out := make(map[string]any, len(fields)+1)
	for key, below := range fields {
		out[key] = below
	}
	return out
}
