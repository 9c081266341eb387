package backup

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestAKindThatIsBeingDeletedIsNotRefused(t *testing.T) {
	shelves := schema.GroupResource{Group: "example.com", Resource: "shelves"}
	refused := apierrors.NewForbidden(shelves, "x", errors.New("create not allowed while custom resource definition is terminating"))
	if !isTerminating(refused) || !isNotServingYet(refused) {
		t.Error("it is not waited for")
	}
	if denied := apierrors.NewForbidden(shelves, "x", errors.New("quota exceeded")); isTerminating(denied) || isNotServingYet(denied) {
		t.Error("a refusal is waited for")
	}
}
