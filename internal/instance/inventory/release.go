package inventory

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	apiextensions "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
)

// ReleasePatch is the merge patch (RFC 7386) that orphans a child: it removes its marks, and
// whatever else would make the instance find it again.
func ReleasePatch(child, instance *unstructured.Unstructured) map[string]any {
	labels, annotations := Marks(child)
	change := DisownPatch(child, instance)
	metadata, _ := change["metadata"].(map[string]any)
	metadata["labels"], metadata["annotations"] = nulls(labels), nulls(annotations)
	if claim, _, ok := ClaimedBy(child); ok && claim == object.KeyOf(instance) {
		change["spec"] = map[string]any{"claimRef": nil}
	}
	return change
}

// LabelPatch is the merge patch that labels a node's child again, so caches have it; nil if it has the labels.
func (o Owner) LabelPatch(child *unstructured.Unstructured, node string) map[string]any {
	if label(child, v1alpha1.ApplySetPartOfLabel) == o.ID() && Node(child) == node {
		return nil
	}
	metadata := map[string]any{}
	switch o.Definition.Dialect {
	case object.GraphDialect:
		metadata["labels"] = map[string]any{v1alpha1.NodeIDLabel: object.HashedLabelValue(node)}
		metadata["annotations"] = map[string]any{v1alpha1.NodePathAnnotation: node}
	case object.CompositeDialect:
		metadata["annotations"] = map[string]any{apiextensions.CompositionResourceNameAnnotation: node}
	case object.ClaimDialect:
		metadata["labels"] = map[string]any{v1alpha1.NodeIDLabel: node}
	}
	_ = unstructured.SetNestedField(metadata, o.ID(), "labels", v1alpha1.ApplySetPartOfLabel)
	return map[string]any{"metadata": metadata}
}

// Labels is the configuration of an object with the labels and the signature of a node's child, and nothing else.
func (o Owner) Labels(child *unstructured.Unstructured, node string) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetGroupVersionKind(child.GroupVersionKind())
	out.SetNamespace(child.GetNamespace())
	out.SetName(child.GetName())
	out.SetLabels(map[string]string{v1alpha1.ApplySetPartOfLabel: o.ID(), v1alpha1.NodeIDLabel: nodeLabel(node)})
	annotations := map[string]string{v1alpha1.NodePathAnnotation: node}
	o.sign(annotations, child, node)
	out.SetAnnotations(annotations)
	return out
}

// RetainPatch is the merge patch that marks a child as retained for the next incarnation of the
// instance.
func RetainPatch(child, instance *unstructured.Unstructured) map[string]any {
	change := DisownPatch(child, instance)
	metadata, _ := change["metadata"].(map[string]any)
	metadata["annotations"] = map[string]any{v1alpha1.RetainedFromAnnotation: string(instance.GetUID())}
	return change
}

// DisownPatch is the merge patch that removes the owner references to the instance, so the garbage collector doesn't
// delete the child with it.
func DisownPatch(child, instance *unstructured.Unstructured) map[string]any {
	metadata := map[string]any{}
	if left, changed := WithoutOwner(child, instance); changed {
		metadata["ownerReferences"] = append([]metav1.OwnerReference{}, left...)
	}
	return map[string]any{"metadata": metadata}
}

func nulls(keys []string) map[string]any {
	out := make(map[string]any, len(keys))
	for _, key := range keys {
		out[key] = nil
	}
	return out
}
