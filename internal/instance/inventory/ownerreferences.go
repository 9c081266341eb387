package inventory

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// CRD is the CustomResourceDefinition of an instance's kind. The zero value is unknown.
type CRD struct {
	Name string
	UID  types.UID
}

const (
	crdGroup = "apiextensions.k8s.io/"
	crdKind  = "CustomResourceDefinition"
)

// addOwnerReferences makes the instance an owner of a graph's child, so tools show the child below it.
//
// The garbage collector reads the references too. When an instance is deleted in the foreground, the collector deletes
// all dependents at once and in no order, whatever blockOwnerDeletion says. A dependent with another owner that exists
// it doesn't delete: it removes the reference to the deleted owner. So a child also refers to the
// CustomResourceDefinition of its instance's kind, which outlives every instance, and the controllers delete the
// children in order, with every propagation policy. A child that is to be preserved has neither reference.
//
// Neither owner is the child's controller: an object has one at most, and many programs that work with a graph's
// objects want to be it, or take only objects without one.
func (o Owner) addOwnerReferences(child *unstructured.Unstructured, at Place) {
	if o.NoOwnerReferences || at.Preserved || o.CRD.UID == "" || !o.canControl(child) {
		return
	}
	refs := child.GetOwnerReferences()
	if metadata, isMap := child.Object["metadata"].(map[string]any); isMap && len(refs) == 0 {
		// As SetOwnerReferences sets them, which takes most of the time of Mark.
		metadata["ownerReferences"] = []any{unstructuredReference(o.reference()), unstructuredReference(o.CRD.reference())}
		return
	}
	if !slices.ContainsFunc(refs, func(r metav1.OwnerReference) bool { return r.UID == o.UID }) { // unless the template says so
		refs = append(refs, o.reference())
	}
	child.SetOwnerReferences(append(refs, o.CRD.reference()))
}

func (o Owner) reference() metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: o.Kind.GroupVersion().String(), Kind: o.Kind.Kind, Name: o.Name, UID: o.UID}
}

// It leaves out the optional fields.
func unstructuredReference(r metav1.OwnerReference) map[string]any {
	return map[string]any{"apiVersion": r.APIVersion, "kind": r.Kind, "name": r.Name, "uid": string(r.UID)}
}

func (a CRD) reference() metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: crdGroup + "v1", Kind: crdKind, Name: a.Name, UID: a.UID}
}

// IsOwnedBy reports whether an object has an owner reference, which the garbage collector deletes it by, to the
// instance or to the CustomResourceDefinition of the instance's kind.
func IsOwnedBy(child, instance *unstructured.Unstructured) bool {
	_, changed := WithoutOwner(child, instance)
	return changed
}

// WithoutOwner returns an object's owner references without the ones that it has because of the instance; changed
// reports whether there were any. When the garbage collector has removed the one to the instance, the one to the
// CustomResourceDefinition is left, and the object would be deleted with the kind.
func WithoutOwner(child *unstructured.Unstructured, instance *unstructured.Unstructured) (left []metav1.OwnerReference, changed bool) {
	all := child.GetOwnerReferences()
	group := "." + instance.GroupVersionKind().Group
	left = slices.DeleteFunc(slices.Clone(all), func(r metav1.OwnerReference) bool {
		anchor := r.Kind == crdKind && strings.HasPrefix(r.APIVersion, crdGroup) && strings.HasSuffix(r.Name, group)
		return r.UID == instance.GetUID() || anchor
	})
	return left, len(left) != len(all)
}
