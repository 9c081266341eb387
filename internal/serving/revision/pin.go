package revision

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// Pin is the revision that an instance asks for.
type Pin struct {
	Number int64
	// Malformed says what is wrong with what it asks for; "" if nothing is.
	Malformed string
}

// PinOf reads what an instance asks for; asks is false if it doesn't.
func PinOf(instance *unstructured.Unstructured) (pin Pin, asks bool) {
	text, asks := instance.GetAnnotations()[v1alpha1.RevisionAnnotation]
	if !asks {
		return Pin{}, false
	}
	n, err := ParseNumber(text)
	if err != nil {
		return Pin{Malformed: "annotation " + v1alpha1.RevisionAnnotation + " " + err.Error()}, true
	}
	return Pin{Number: n}, true
}
