package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
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
		err    error
		reason plan.Reason
		gone   bool
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
			err: apierrors.NewConflict(gizmos, "x", errors.New("another UID")), reason: plan.Unavailable, gone: true,
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
			if got := cluster.Passes(tc.err); got != (tc.reason == plan.Unavailable) {
				t.Errorf("may it work when it is repeated: got %t", got)
			}
		})
	}
	if !cluster.IsUnavailable(fmt.Errorf("x: %w", &cluster.Unavailable{Kind: gizmo})) || cluster.IsUnavailable(apierrors.NewNotFound(gizmos, "x")) {
		t.Error("a missing kind is told from a missing object")
	}
}

func TestDiscreetNamesEachAnswer(t *testing.T) {
	const secret = "hunter2"
	cases := map[string]struct {
		reason string
		err    error
		want   string
	}{
		"An answer with a reason": {"it names itself", apierrors.NewTimeoutError(secret, 1), "the API server answers Timeout"},
		"An answer that names fields": {
			"fields are no values", apierrors.NewInvalid(gizmo.GroupKind(), "x", field.ErrorList{field.Invalid(field.NewPath("data"), secret, "no")}),
			"the API server answers Invalid; data: FieldValueInvalid",
		},
		"An answer without a reason": {
			"what can't be decoded is answered so", &apierrors.StatusError{ErrStatus: metav1.Status{Code: 500, Message: "illegal base64 data in " + secret}},
			"the API server answers 500 Internal Server Error, without a reason",
		},
		"An answer with neither reason nor code": {"a proxy's, say", &apierrors.StatusError{}, "the API server answers without a reason"},
		"No answer": {
			"the URL has the object's name", &url.Error{Op: "Patch", URL: "https://cluster/" + secret, Err: errors.New("connection refused")},
			"the API server does not answer: connection refused",
		},
		"No answer in time": {"it is a matter of patience", fmt.Errorf("%s: %w", secret, context.DeadlineExceeded), "the API server does not answer in time"},
		"No kind":           {"it quotes nothing of the object", &cluster.Unavailable{Kind: gizmo}, (&cluster.Unavailable{Kind: gizmo}).Error()},
		"No request":        {"its text may quote anything", errors.New(secret), "the request failed before the API server answered"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := cluster.Discreet(tc.err); got != tc.want {
				t.Errorf("%s: want %q, got %q", tc.reason, tc.want, got)
			}
			if quiet := cluster.Quiet(tc.err); quiet.Error() != tc.want || !errors.Is(quiet, tc.err) {
				t.Errorf("want the same error in other words, got %v", quiet)
			}
		})
	}
}

func TestAPlainErrorIsTheSameInFewerWords(t *testing.T) {
	pod := map[string]any{"Containers": []any{map[string]any{"Name": "c", "Env": "hunter2"}}}
	long := apierrors.NewInvalid(gizmo.GroupKind(), "x", field.ErrorList{
		field.Invalid(field.NewPath("spec", "template"), pod, "field is immutable"), field.Invalid(field.NewPath("metadata", "uid"), "u", "field is immutable"),
	})
	got := cluster.Plain(long)
	const want = `Gizmo.example.com "x" is invalid: [spec.template: Invalid value: field is immutable, metadata.uid: Invalid value: "u": field is immutable]`
	if got.Error() != want || cluster.Explain(long) != (plan.Problem{Reason: plan.Rejected, Message: want}) {
		t.Errorf("got %v, %v", got, cluster.Explain(long))
	}
	if !apierrors.IsInvalid(got) || !cluster.IsGone(got) || !errors.Is(got, long) {
		t.Error("it is another error")
	}
	if short := errors.New("short"); cluster.Plain(short) != short || cluster.Plain(nil) != nil {
		t.Error("an error that is plain is wrapped")
	}
}
