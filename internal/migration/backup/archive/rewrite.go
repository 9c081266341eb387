package archive

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
)

// serverFields are the metadata fields that only API servers and controllers set. They refer to
// objects of another cluster, by UID, or to another state of this one.
var serverFields = []string{
	"uid", "resourceVersion", "generation", "creationTimestamp", "selfLink", "managedFields",
	"ownerReferences", "deletionTimestamp", "deletionGracePeriodSeconds", "generateName",
}

// Imported returns the object as an import creates it: with the import's annotation, and
// without status, managed fields and deletion, which it restores separately. All that refers to
// another cluster by UID is removed here, whether the export has left it out or not; ForOwner
// sets the UIDs of this one.
func Imported(o *unstructured.Unstructured, by string) *unstructured.Unstructured {
	out := o.DeepCopy()
	delete(out.Object, "status")
	metadata, _ := out.Object["metadata"].(map[string]any)
	for _, field := range serverFields {
		delete(metadata, field)
	}
	annotate(out, deletingAnnotation, "")
	annotate(out, espalier.ImportAnnotation, by)
	if out.GroupVersionKind().GroupKind() == bindingKind {
		importBinding(out)
	}
	return out
}

// importBinding makes a Binding one of this cluster. Its label follows from its owner, its last
// leader led another cluster, and the operation in flight is resolved by observation.
func importBinding(b *unstructured.Unstructured) {
	owner, _ := Owner(b)
	labels := b.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[v1alpha1.ApplySetPartOfLabel] = inventory.ApplySetID(owner)
	b.SetLabels(labels)
	unstructured.RemoveNestedField(b.Object, "spec", "leader")
	if HasOperation(b) {
		_ = unstructured.SetNestedField(b.Object, true, "spec", "operation", "imported") // it has an operation
	}
}

// ForOwner returns the Binding for a managed resource that was created again with another UID. A
// name that derives from the former UID changes.
func ForOwner(b *unstructured.Unstructured, uid types.UID) *unstructured.Unstructured {
	out := b.DeepCopy()
	_, former := Owner(b)
	if b.GetName() == uidPrefix+string(former) {
		out.SetName(uidPrefix + string(uid))
	}
	_ = unstructured.SetNestedField(out.Object, string(uid), "spec", "owner", "uid") // Check makes sure that it has an owner
	return out
}
