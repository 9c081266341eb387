package inventory

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Anchor is the CustomResourceDefinition of an instance's kind. The zero value is one that
// isn't known.
type Anchor struct {
	Name string
	UID  types.UID
}

const (
	anchorGroup = "apiextensions.k8s.io/"
	anchorKind  = "CustomResourceDefinition"
)

// refer puts onto a graph's child who its owner is, in Kubernetes' words: so that tools
// show it below its instance.
//
// The garbage collector reads these words too. Of an instance that is deleted in the
// foreground it would delete all children at once, in no order, whatever they say of
// blocking. What has another owner that stays it doesn't delete: it takes off the
// reference to the one that goes. So a child refers to the definition of its instance's
// kind as well, which outlives every instance; and what is taken apart is taken apart in
// order, by whatever policy. A child that is to stay refers to neither.
//
// Neither is the child's controller: an object has one at most, and many a program that
// works with what a graph has made wants to be that, or takes only what has none.
func (o Owner) refer(child *unstructured.Unstructured, at Place) {
	if o.Unreferred || at.Stays || o.Anchor.UID == "" || !o.controls(child) {
		return
	}
	refs := child.GetOwnerReferences()
	if !slices.ContainsFunc(refs, func(r metav1.OwnerReference) bool { return r.UID == o.UID }) { // unless the template says so
		refs = append(refs, metav1.OwnerReference{APIVersion: o.Kind.GroupVersion().String(), Kind: o.Kind.Kind, Name: o.Name, UID: o.UID})
	}
	child.SetOwnerReferences(append(refs, o.Anchor.reference()))
}

// reference refers to the definition of an instance's kind as an owner.
func (a Anchor) reference() metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: anchorGroup + "v1", Kind: anchorKind, Name: a.Name, UID: a.UID}
}

// IsOwnedBy says whether an object refers to the instance as an owner, with which the
// garbage collector takes it, or to the definition of the instance's kind.
func IsOwnedBy(child, instance *unstructured.Unstructured) bool {
	_, is := Disown(child, instance)
	return is
}

// Disown is what is left of an object's owner references without those that it has because
// of the instance; changed says whether there were any. When the collector has taken off
// that to the instance, the other is left, and would have the object go with the kind.
func Disown(child *unstructured.Unstructured, instance *unstructured.Unstructured) (left []metav1.OwnerReference, changed bool) {
	all := child.GetOwnerReferences()
	group := "." + instance.GroupVersionKind().Group
	left = slices.DeleteFunc(slices.Clone(all), func(r metav1.OwnerReference) bool {
		anchor := r.Kind == anchorKind && strings.HasPrefix(r.APIVersion, anchorGroup) && strings.HasSuffix(r.Name, group)
		return r.UID == instance.GetUID() || anchor
	})
	return left, len(left) != len(all)
}
