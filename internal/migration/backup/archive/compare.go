package archive

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
)

// ImportedBy returns the value of the import annotation for a Hold.
func ImportedBy(hold *unstructured.Unstructured) string {
	return hold.GetName() + "/" + string(hold.GetUID())
}

// HoldName returns the name of the Hold of an export's import.
func HoldName(id string) string { return "import-" + id }

// CreatedBy reports whether the import with a Hold has created an object: it has the UID of the
// Hold, which the API server has assigned, and is not older than the Hold. So neither an archive
// nor the annotation of an object that existed before can make an object one of the import's.
func CreatedBy(o, hold *unstructured.Unstructured) bool {
	created := o.GetCreationTimestamp()
	return hold != nil && o.GetAnnotations()[espalier.ImportAnnotation] == ImportedBy(hold) &&
		(created.IsZero() || !created.Time.Before(hold.GetCreationTimestamp().Time))
}
