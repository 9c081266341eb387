package inventory

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	apiextensions "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/object"
)

// family are the labels by which the children of an instance tell whose they are.
func family(d object.Dialect, instance *unstructured.Unstructured) map[string]string {
	switch d {
	case object.CompositeDialect:
		out := map[string]string{apiextensions.CompositeLabel: RootOf(instance)}
		for _, key := range []string{apiextensions.ClaimNameLabel, apiextensions.ClaimNamespaceLabel} {
			if value := instance.GetLabels()[key]; value != "" {
				out[key] = value
			}
		}
		return out
	case object.ClaimDialect:
		return map[string]string{
			apiextensions.ClaimNameLabel:      object.LabelValue(instance.GetName()),
			apiextensions.ClaimNamespaceLabel: instance.GetNamespace(),
		}
	case object.GraphDialect:
	}
	return nil
}

// RootOf is the name of the composite at the top of a composite's tree, itself if it is
// in none.
func RootOf(composite *unstructured.Unstructured) string {
	if root := composite.GetLabels()[apiextensions.CompositeLabel]; root != "" {
		return root
	}
	return object.LabelValue(composite.GetName())
}

// controls says whether Kubernetes lets the owner be the controller of an object. A claim's
// composite is in no namespace; its Secret is in the claim's.
func (o Owner) controls(child *unstructured.Unstructured) bool {
	return o.Namespace == "" || o.Namespace == child.GetNamespace()
}

// markComposed puts the composition dialect's marks onto what a composite is composed of.
func (o Owner) markComposed(child *unstructured.Unstructured, at Place) {
	annotations := child.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[apiextensions.CompositionResourceNameAnnotation] = at.Node
	child.SetAnnotations(annotations)
}

// control makes a composite or a claim the controller of a child. One that is to stay has
// no owner reference: the garbage collector knows of nobody's policies, and would take it
// with its owner, or before it.
func (o Owner) control(child *unstructured.Unstructured, at Place) {
	if !o.controls(child) {
		return
	}
	if at.Stays {
		if refs := slices.DeleteFunc(child.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == o.UID }); len(refs) > 0 {
			child.SetOwnerReferences(refs)
		} else {
			unstructured.RemoveNestedField(child.Object, "metadata", "ownerReferences")
		}
		return
	}
	refs := slices.DeleteFunc(child.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.Controller != nil && *r.Controller })
	yes := true
	refs = append(refs, metav1.OwnerReference{
		APIVersion: o.Kind.GroupVersion().String(), Kind: o.Kind.Kind, Name: o.Name, UID: o.UID,
		Controller: &yes, BlockOwnerDeletion: &yes,
	})
	if o.Anchor.UID != "" && !o.Unreferred {
		refs = append(refs, o.Anchor.reference())
	}
	child.SetOwnerReferences(refs)
}

// composedMarks are the composition dialect's labels and annotations on a child.
func composedMarks(child *unstructured.Unstructured) (labels, annotations []string) {
	own := []string{apiextensions.CompositeLabel, apiextensions.ClaimNameLabel, apiextensions.ClaimNamespaceLabel}
	if IsInstance(child) {
		own = own[1:] // it is the root of its own tree from now on, or of none
	}
	for _, key := range own {
		if _, ok := child.GetLabels()[key]; ok {
			labels = append(labels, key)
		}
	}
	if _, ok := child.GetAnnotations()[apiextensions.CompositionResourceNameAnnotation]; ok {
		annotations = append(annotations, apiextensions.CompositionResourceNameAnnotation)
	}
	return labels, annotations
}
