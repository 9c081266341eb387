package kube_test

import (
	"errors"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube"
)

// TestFieldConflictsAreNotStale tells the two apart that the server answers
// with one reason.
func TestFieldConflictsAreNotStale(t *testing.T) {
	over := apierrors.NewApplyConflict([]metav1.StatusCause{
		{Type: metav1.CauseTypeFieldManagerConflict, Field: ".spec.replicas", Message: `conflict with "autoscaler"`},
		{Type: metav1.CauseTypeFieldManagerConflict, Field: ".data.a", Message: `conflict with "meddler"`},
		{Type: metav1.CauseTypeFieldManagerConflict, Field: ".data.a", Message: `conflict with "rival"`},
	}, "Apply failed with 3 conflicts")
	fields, contested := kube.FieldConflicts(over)
	if !contested || !slices.Equal(fields, []string{"data.a", "spec.replicas"}) {
		t.Errorf("it is over %v: %t", fields, contested)
	}
	if kube.IsStale(over) || kube.IsNameTaken(over) {
		t.Error("the object isn't gone, nor is its name taken")
	}
	for name, err := range map[string]error{
		"nothing":                   nil,
		"something without details": errors.New("broken"),
		"another revision":          apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "a", errors.New("changed")),
	} {
		if _, contested := kube.FieldConflicts(err); contested {
			t.Errorf("%s is a conflict over fields", name)
		}
	}
}
