package archive

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/api/protection/v1beta1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

// deletingAnnotation is set on an exported object that was being deleted. Its value is the
// propagation policy. An import deletes the object again.
const deletingAnnotation = "espalier.dev/export-deleting"

// orphanFinalizer is the API server's finalizer for the propagation policy Orphan.
const orphanFinalizer = "orphan"

// Strip returns the object as it is exported: without the fields that an API server sets, and
// without its status, which controllers compute again. StripExceptStatus is for objects that
// functions read. The managed fields stay, so that their managers can remove fields later. Owner
// references are removed, since their UIDs exist on no other server; the controllers do not need
// them.
func Strip(o *unstructured.Unstructured) *unstructured.Unstructured { return strip(o, false) }

func strip(o *unstructured.Unstructured, keepStatus bool) *unstructured.Unstructured {
	out := o.DeepCopy()
	delete(out.Object, "status")
	if status := portableStatus(o); keepStatus && len(status) > 0 {
		out.Object["status"] = status
	}
	deleting, policy := out.GetDeletionTimestamp() != nil, deletionPolicy(o)
	fields := managedFields(out, keepStatus)
	metadata, _ := out.Object["metadata"].(map[string]any)
	for _, field := range serverFields {
		delete(metadata, field)
	}
	out.SetFinalizers(slices.DeleteFunc(out.GetFinalizers(), func(f string) bool {
		return f == orphanFinalizer || f == metav1.FinalizerDeleteDependents // the API server sets them with a deletion
	}))
	if len(fields) > 0 {
		out.SetManagedFields(fields)
	}
	annotate(out, espalier.ImportAnnotation, "")
	annotate(out, deletingAnnotation, "")
	annotate(out, v1beta1.UserAnnotation, "")
	if gk := o.GroupVersionKind().GroupKind(); IsDefinition(gk) && gk != compositeDefinitionKind {
		annotate(out, v1alpha1.ServedAnnotation, servedStatus(o))
	}
	if deleting {
		annotate(out, deletingAnnotation, policy)
	}
	switch sectionOf(out.GroupVersionKind().GroupKind(), nil) {
	case Namespaces:
		delete(out.Object, "spec") // only the API server's own finalizers
		out.SetManagedFields(nil)
	case Bindings:
		out.SetManagedFields(nil)
	default:
	}
	return out
}

// managedFields returns the managed fields without those of subresources that are not exported.
func managedFields(o *unstructured.Unstructured, withStatus bool) []metav1.ManagedFieldsEntry {
	return slices.DeleteFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Subresource != "" && !(withStatus && e.Subresource == "status")
	})
}

// deletionPolicy returns the propagation policy of an object's deletion.
func deletionPolicy(o *unstructured.Unstructured) string {
	status := report.ReadDeletion(o)
	if slices.Contains(o.GetFinalizers(), orphanFinalizer) || status != nil && status.Policy == report.Orphan {
		return string(metav1.DeletePropagationOrphan)
	}
	return string(metav1.DeletePropagationBackground)
}

// annotate sets an annotation, or removes it if the value is empty.
func annotate(o *unstructured.Unstructured, key, value string) {
	annotations := o.GetAnnotations()
	if value == "" {
		if _, ok := annotations[key]; !ok {
			return
		}
		delete(annotations, key)
		if len(annotations) == 0 {
			annotations = nil
		}
	} else {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
	}
	o.SetAnnotations(annotations)
}

// Deleting reports whether an exported object was being deleted, and with which propagation
// policy.
func Deleting(o *unstructured.Unstructured) (policy metav1.DeletionPropagation, deleting bool) {
	text := o.GetAnnotations()[deletingAnnotation]
	return metav1.DeletionPropagation(text), text != ""
}
