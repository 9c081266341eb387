package revision

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
)

// Pin is the revision that an instance requests by annotation.
type Pin struct {
	Number int64
	// Malformed is the problem of an invalid annotation; empty if it is valid.
	Malformed string
}

// PinOf reads the annotation of an instance; pinned reports whether it is set.
func PinOf(instance *unstructured.Unstructured) (pin Pin, pinned bool) {
	text, pinned := instance.GetAnnotations()[v1alpha1.RevisionAnnotation]
	if !pinned {
		return Pin{}, false
	}
	n, err := ParseNumber(text)
	if err != nil {
		return Pin{Malformed: "annotation " + v1alpha1.RevisionAnnotation + " " + err.Error()}, true
	}
	return Pin{Number: n}, true
}

// AllowedPinOf is PinOf under the definition's overrides: pinned is false if these do not allow the annotation.
func AllowedPinOf(instance *unstructured.Unstructured, overrides inventory.Overrides) (pin Pin, pinned bool) {
	if !overrides.AllowsRevision() {
		return pin, false
	}
	return PinOf(instance)
}
