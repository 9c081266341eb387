package inventory

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
)

// Released is the change (a merge patch, RFC 7386) by which a child that is left in place
// stops belonging to the instance: its marks go, and with them whatever else it says by
// which the instance would find it again.
func Released(child, instance *unstructured.Unstructured) map[string]any {
	labels, annotations := Marks(child)
	change := Disowned(child, instance)
	metadata, _ := change["metadata"].(map[string]any)
	metadata["labels"], metadata["annotations"] = none(labels), none(annotations)
	if claim, _, ok := ClaimedBy(child); ok && claim == object.KeyOf(instance) {
		change["spec"] = map[string]any{"claimRef": nil}
	}
	return change
}

// Retained is the change (a merge patch) by which a child that stays for the instance's
// next incarnation says so.
func Retained(child, instance *unstructured.Unstructured) map[string]any {
	change := Disowned(child, instance)
	metadata, _ := change["metadata"].(map[string]any)
	metadata["annotations"] = map[string]any{v1alpha1.RetainedFromAnnotation: string(instance.GetUID())}
	return change
}

// Disowned is the change (a merge patch) by which the garbage collector doesn't take a
// child with the instance any more.
func Disowned(child, instance *unstructured.Unstructured) map[string]any {
	metadata := map[string]any{}
	if left, changed := Disown(child, instance); changed {
		metadata["ownerReferences"] = append([]metav1.OwnerReference{}, left...)
	}
	return map[string]any{"metadata": metadata}
}

func none(keys []string) map[string]any {
	out := make(map[string]any, len(keys))
	for _, key := range keys {
		out[key] = nil
	}
	return out
}
