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

// deletingAnnotation is on an exported object that was being deleted, and says what
// was to become of its dependents. An import deletes it again.
const deletingAnnotation = "espalier.dev/export-deleting"

// orphanFinalizer is the API server's on an object whose dependents are to stay.
const orphanFinalizer = "orphan"

// Strip returns the object as it is exported: without what its server gave it and
// another server gives anew, and without its status, all of which is found out again.
// (StripButStatus is for what functions see.) Who owns which field is kept, so that fields
// can be taken away again by those who have put them there. Owner references name objects by
// identities that no other server has; nothing of ours rests on them.
func Strip(o *unstructured.Unstructured) *unstructured.Unstructured { return strip(o, false) }

func strip(o *unstructured.Unstructured, keepStatus bool) *unstructured.Unstructured {
	out := o.DeepCopy()
	delete(out.Object, "status")
	if status := passingOn(o); keepStatus && len(status) > 0 {
		out.Object["status"] = status
	}
	deleting, policy := out.GetDeletionTimestamp() != nil, deletionPolicy(o)
	fields := managedFields(out, keepStatus)
	metadata, _ := out.Object["metadata"].(map[string]any)
	for _, field := range []string{
		"uid", "resourceVersion", "generation", "creationTimestamp", "selfLink", "managedFields",
		"ownerReferences", "deletionTimestamp", "deletionGracePeriodSeconds", "generateName",
	} {
		delete(metadata, field)
	}
	out.SetFinalizers(slices.DeleteFunc(out.GetFinalizers(), func(f string) bool {
		return f == orphanFinalizer || f == metav1.FinalizerDeleteDependents // the API server's own, put on with a deletion
	}))
	if len(fields) > 0 {
		out.SetManagedFields(fields)
	}
	annotate(out, espalier.ImportAnnotation, "")
	annotate(out, deletingAnnotation, "")
	annotate(out, v1beta1.UserAnnotation, "")
	if gk := o.GroupVersionKind().GroupKind(); IsDefinition(gk) && gk != compositeDefinitionKind {
		annotate(out, v1alpha1.ServedAnnotation, servedBy(o))
	}
	if deleting {
		annotate(out, deletingAnnotation, policy)
	}
	switch sectionOf(out.GroupVersionKind().GroupKind(), nil) {
	case Namespaces:
		delete(out.Object, "spec") // its finalizers, which are the server's
		out.SetManagedFields(nil)
	case Bindings:
		out.SetManagedFields(nil)
	default:
	}
	return out
}

// managedFields are who owns which field, but for subresources that aren't exported.
func managedFields(o *unstructured.Unstructured, withStatus bool) []metav1.ManagedFieldsEntry {
	return slices.DeleteFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Subresource != "" && !(withStatus && e.Subresource == "status")
	})
}

// deletionPolicy is what was asked for when an object was deleted.
func deletionPolicy(o *unstructured.Unstructured) string {
	said := report.ReadDeletion(o)
	if slices.Contains(o.GetFinalizers(), orphanFinalizer) || said != nil && said.Policy == report.Orphan {
		return string(metav1.DeletePropagationOrphan)
	}
	return string(metav1.DeletePropagationBackground)
}

// annotate sets an annotation, or takes it off if the value is empty.
func annotate(o *unstructured.Unstructured, key, value string) {
	annotations := o.GetAnnotations()
	if value == "" {
		if _, there := annotations[key]; !there {
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

// Imported returns the object as an import writes it: named as the import's, and
// without what is written on its own afterwards: its status, who owns its fields, and that
// it is being deleted.
func Imported(o *unstructured.Unstructured, by string) *unstructured.Unstructured {
	out := o.DeepCopy()
	delete(out.Object, "status")
	out.SetManagedFields(nil)
	annotate(out, deletingAnnotation, "")
	annotate(out, espalier.ImportAnnotation, by)
	return out
}

// Deleting says that an exported object was being deleted, and what was to become of
// its dependents.
func Deleting(o *unstructured.Unstructured) (policy metav1.DeletionPropagation, deleting bool) {
	text := o.GetAnnotations()[deletingAnnotation]
	return metav1.DeletionPropagation(text), text != ""
}
