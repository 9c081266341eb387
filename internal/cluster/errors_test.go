package cluster_test

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/plan"
)

var (
	gizmos  = schema.GroupResource{Group: "example.com", Resource: "gizmos"}
	gizmo   = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gizmo"}
	invalid = func(path *field.Path) error {
		return apierrors.NewInvalid(gizmo.GroupKind(), "x", field.ErrorList{field.Invalid(path, "u", "field is immutable")})
	}
)

func TestWhatAnErrorMeans(t *testing.T) {
	cases := map[string]struct {
		err         error
		reason      plan.Reason
		gone, taken bool
	}{
		"The kind isn't served": {
			err: fmt.Errorf("apply: %w", &cluster.Unavailable{Kind: gizmo}), reason: plan.WaitingForKind,
		},
		"The controller may not": {
			err: apierrors.NewForbidden(gizmos, "x", errors.New("no role")), reason: plan.Forbidden,
		},
		"The object is invalid": {
			err: invalid(field.NewPath("spec", "size")), reason: plan.Rejected,
		},
		"The name has another incarnation": {
			err: invalid(field.NewPath("metadata", "uid")), reason: plan.Rejected, gone: true,
		},
		"The object is gone": {
			err: apierrors.NewNotFound(gizmos, "x"), reason: plan.Unavailable, gone: true,
		},
		"The object has changed or exists": {
			err: apierrors.NewConflict(gizmos, "x", errors.New("another UID")), reason: plan.Unavailable, gone: true, taken: true,
		},
		"A webhook refuses it in its own words": {
			err: &apierrors.StatusError{ErrStatus: metav1.Status{
				Status: metav1.StatusFailure, Code: 409, Reason: "This resource is in use", Message: "admission webhook denied the request",
			}}, reason: plan.Unavailable,
		},
		"The request is malformed": {
			err: apierrors.NewBadRequest("no such field"), reason: plan.Rejected,
		},
		"The server has no time": {
			err: apierrors.NewTooManyRequests("later", 1), reason: plan.Unavailable,
		},
		"The server is broken": {
			err: apierrors.NewInternalError(errors.New("oops")), reason: plan.Unavailable,
		},
		"The network is": {
			err: errors.New("connection refused"), reason: plan.Unavailable,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			problem := cluster.Explain(tc.err)
			if problem.Reason != tc.reason || problem.Message == "" {
				t.Errorf("want %s, got %v", tc.reason, problem)
			}
			if got := cluster.IsGone(tc.err); got != tc.gone {
				t.Errorf("gone: want %t, got %t", tc.gone, got)
			}
			if got := cluster.IsTaken(tc.err); got != tc.taken {
				t.Errorf("taken: want %t, got %t", tc.taken, got)
			}
			if got := cluster.Passes(tc.err); got != (tc.reason == plan.Unavailable) {
				t.Errorf("may it work when it is repeated: got %t", got)
			}
		})
	}
	if !cluster.IsUnavailable(fmt.Errorf("x: %w", &cluster.Unavailable{Kind: gizmo})) || cluster.IsUnavailable(apierrors.NewNotFound(gizmos, "x")) {
		t.Error("a missing kind is told from a missing object")
	}
}
