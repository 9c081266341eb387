package inventory

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	apiextensions "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/object"
)

func treeLabels(d object.Dialect, instance *unstructured.Unstructured) map[string]string {
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

// RootOf is the name of the composite at the root of a composite's tree, itself if it has no
// parent.
func RootOf(composite *unstructured.Unstructured) string {
	if root := composite.GetLabels()[apiextensions.CompositeLabel]; root != "" {
		return root
	}
	return object.LabelValue(composite.GetName())
}

// canControl reports whether Kubernetes lets the owner be the controller of an object. A claim's composite is
// cluster-scoped; its Secret is in the claim's namespace.
func (o Owner) canControl(child *unstructured.Unstructured) bool {
	return o.Namespace == "" || o.Namespace == child.GetNamespace()
}

// A preserved child has no owner reference: the garbage collector doesn't know deletion policies, and would delete it
// with its owner, or before it.
func (o Owner) setController(child *unstructured.Unstructured, at Place) {
	if !o.canControl(child) {
		return
	}
	if at.Preserved {
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
	if o.CRD.UID != "" && !o.NoOwnerReferences {
		refs = append(refs, o.CRD.reference())
	}
	child.SetOwnerReferences(refs)
}

// IsComposedMark reports whether a field of an object is a label or an annotation of the composition dialect.
func IsComposedMark(child *unstructured.Unstructured, field object.Path) bool {
	labels, annotations := composedMarks(child)
	return slices.ContainsFunc(labels, func(key string) bool { return field == object.Path("metadata.labels").Field(key) }) ||
		slices.ContainsFunc(annotations, func(key string) bool { return field == object.Path("metadata.annotations").Field(key) })
}

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
