package kube_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/espalier-dev/espalier/internal/kube"
)

var (
	gizmos  = schema.GroupResource{Group: "example.com", Resource: "gizmos"}
	gizmo   = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gizmo"}
	invalid = func(path *field.Path) error {
		return apierrors.NewInvalid(gizmo.GroupKind(), "x", field.ErrorList{field.Invalid(path, "u", "field is immutable")})
	}
)

func answerOf(code int32, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: message}}
}

func TestClassifyError(t *testing.T) {
	cases := map[string]struct {
		err    error
		reason kube.Reason
		gone   bool
	}{
		"the kind is not served": {
			err: fmt.Errorf("apply: %w", &kube.NoKindMatchError{Kind: gizmo}), reason: kube.ReasonWaitingForKind,
		},
		"the kind is being deleted": {
			err:    fmt.Errorf("apply: %w", apierrors.NewForbidden(gizmos, "x", errors.New("create not allowed while custom resource definition is terminating"))),
			reason: kube.ReasonWaitingForKind,
		},
		"forbidden": {
			err: apierrors.NewForbidden(gizmos, "x", errors.New("no role")), reason: kube.ReasonForbidden,
		},
		"the object is invalid": {
			err: invalid(field.NewPath("spec", "size")), reason: kube.ReasonRejected,
		},
		"another object has the name": {
			err: invalid(field.NewPath("metadata", "uid")), reason: kube.ReasonRejected, gone: true,
		},
		"the object is gone": {
			err: apierrors.NewNotFound(gizmos, "x"), reason: kube.ReasonUnavailable, gone: true,
		},
		"the object has changed or exists": {
			err: apierrors.NewConflict(gizmos, "x", errors.New("another UID")), reason: kube.ReasonUnavailable, gone: true,
		},
		"a webhook refuses it without a reason": {
			err: &apierrors.StatusError{ErrStatus: metav1.Status{
				Status: metav1.StatusFailure, Code: 409, Reason: "This resource is in use", Message: "admission webhook denied the request",
			}}, reason: kube.ReasonUnavailable,
		},
		"the request is too large for the API server": {
			err: apierrors.NewRequestEntityTooLargeError("limit is 3145728"), reason: kube.ReasonRejected,
		},
		"the object is too large for etcd": {
			err: answerOf(500, "etcdserver: request is too large"), reason: kube.ReasonRejected,
		},
		"the object is too large for a message to etcd": {
			err: answerOf(500, "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2600283 vs. 2097152)"), reason: kube.ReasonRejected,
		},
		"an applied object has not the types of its schema": {
			err:    answerOf(500, `failed to create typed patch object (default/x; example.com/v1, Kind=Gizmo): .spec.size: expected string, got &value.valueUnstructured{Value:5}`),
			reason: kube.ReasonRejected,
		},
		"the stored object has not the types of its schema": {
			err: answerOf(500, `failed to create typed live object (default/x; example.com/v1, Kind=Gizmo): .spec.size: expected string, got …`), reason: kube.ReasonUnavailable,
		},
		"etcd fails": {
			err: answerOf(500, "etcdserver: request timed out"), reason: kube.ReasonUnavailable,
		},
		"the request is malformed": {
			err: apierrors.NewBadRequest("no such field"), reason: kube.ReasonRejected,
		},
		"too many requests": {
			err: apierrors.NewTooManyRequests("later", 1), reason: kube.ReasonUnavailable,
		},
		"an internal error of the server": {
			err: apierrors.NewInternalError(errors.New("oops")), reason: kube.ReasonUnavailable,
		},
		"the connection is refused": {
			err: errors.New("connection refused"), reason: kube.ReasonUnavailable,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			reason, message := kube.ClassifyError(tc.err)
			if reason != tc.reason || message == "" {
				t.Errorf("want %s, got %s: %s", tc.reason, reason, message)
			}
			if got := kube.IsStale(tc.err); got != tc.gone {
				t.Errorf("gone: want %t, got %t", tc.gone, got)
			}
			if got := kube.IsTransient(tc.err); got != (tc.reason == kube.ReasonUnavailable) {
				t.Errorf("transient: got %t", got)
			}
		})
	}
	if !kube.IsNoKindMatch(fmt.Errorf("x: %w", &kube.NoKindMatchError{Kind: gizmo})) || kube.IsNoKindMatch(apierrors.NewNotFound(gizmos, "x")) {
		t.Error("a missing kind is taken for a missing object")
	}
}

func TestRedactedFields(t *testing.T) {
	for field, want := range map[string]string{
		"spec.containers[0].image":                         "spec.containers[0].image",
		"data[hunter2!]":                                   "data[…]",
		`spec.containers[name="hunter2"].ports[0]`:         "spec.containers[…].ports[0]",
		`spec.set[="hunter2"]`:                             "spec.set[…]",
		`spec.set[="hun]ter2"].a`:                          "spec.set[…].a",
		`spec.set[="hun\"]ter2"][1]`:                       "spec.set[…][1]",
		"data[hun]ter2]":                                   "data[…]",
		"data[hun[0]ter2]":                                 "data[…]",
		"data[hunter2":                                     "data[…]",
		`spec.ports[containerPort=80,protocol="TCP"].name`: "spec.ports[…].name",
	} {
		if got := kube.RedactedField(field); got != want {
			t.Errorf("%s: want %q, got %q", field, want, got)
		}
	}
	err := apierrors.NewInvalid(gizmo.GroupKind(), "x", field.ErrorList{field.Invalid(field.NewPath("data", "hunter2"), "a", "no")})
	if got := kube.RedactedWithoutFields(err).Error(); got != "the API server answers Invalid" {
		t.Errorf("without fields: %s", got)
	}
}

type failedCall struct{ error }

func (failedCall) RedactedText() string { return "the call failed" }

func TestRedactedMessage(t *testing.T) {
	const secret = "hunter2"
	cases := map[string]struct {
		reason string
		err    error
		want   string
	}{
		"An answer with a reason": {"the reason is shown", apierrors.NewTimeoutError(secret, 1), "the API server answers Timeout"},
		"An answer that names fields": {
			"field names are no values", apierrors.NewInvalid(gizmo.GroupKind(), "x", field.ErrorList{field.Invalid(field.NewPath("data"), secret, "no")}),
			"the API server answers Invalid; data: FieldValueInvalid",
		},
		"An answer that is no Status": {
			"the filter of an overloaded server answers in plain text",
			apierrors.NewGenericServerResponse(429, "put", gizmos, "", "too many requests", 1, true),
			"the API server answers TooManyRequests",
		},
		"An answer with a cause that names no field": {
			"the cause alone is shown", &apierrors.StatusError{ErrStatus: metav1.Status{Code: 504, Reason: metav1.StatusReasonTimeout, Details: &metav1.StatusDetails{
				Causes: []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: secret}},
			}}}, "the API server answers Timeout; ResourceVersionTooLarge",
		},
		"An answer without a reason": {
			"such as the answer to a body that cannot be decoded", &apierrors.StatusError{ErrStatus: metav1.Status{Code: 500, Message: "illegal base64 data in " + secret}},
			"the API server answers 500 Internal Server Error, without a reason",
		},
		"An object that is too large": {"the answer has a text only", answerOf(500, "etcdserver: request is too large"), "the object is too large for the API server"},
		"An object of other types": {
			"the text quotes the value", answerOf(500, "failed to create typed patch object (p/"+secret+"; v1, Kind=Secret): .data: expected map, got "+secret),
			"the object does not have the fields and types of its kind's schema",
		},
		"An answer with neither reason nor code": {"such as the answer of a proxy", &apierrors.StatusError{}, "the API server answers without a reason"},
		"No answer": {
			"the URL has the object's name", &url.Error{Op: "Patch", URL: "https://cluster/" + secret, Err: errors.New("connection refused")},
			"the API server does not answer: connection refused",
		},
		"No answer in time": {"the text may quote the object", fmt.Errorf("%s: %w", secret, context.DeadlineExceeded), "the API server does not answer in time"},
		"No kind":           {"the text does not quote the object", &kube.NoKindMatchError{Kind: gizmo}, (&kube.NoKindMatchError{Kind: gizmo}).Error()},
		"Another failure":   {"it has a text to show", fmt.Errorf("%s: %w", secret, failedCall{errors.New(secret)}), "the call failed"},
		"No request":        {"the text may quote the object", errors.New(secret), "the request failed before the API server answered"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := kube.RedactedMessage(tc.err); got != tc.want {
				t.Errorf("%s: want %q, got %q", tc.reason, tc.want, got)
			}
			if quiet := kube.Redacted(tc.err); quiet.Error() != tc.want || !errors.Is(quiet, tc.err) {
				t.Errorf("want an error that wraps the same error, got %v", quiet)
			}
		})
	}
}

func TestConcise(t *testing.T) {
	pod := map[string]any{"Containers": []any{map[string]any{"Name": "c", "Env": "hunter2"}}}
	long := apierrors.NewInvalid(gizmo.GroupKind(), "x", field.ErrorList{
		field.Invalid(field.NewPath("spec", "template"), pod, "field is immutable"), field.Invalid(field.NewPath("metadata", "uid"), "u", "field is immutable"),
	})
	got := kube.Concise(long)
	const want = `Gizmo.example.com "x" is invalid: [spec.template: Invalid value: field is immutable, metadata.uid: Invalid value: "u": field is immutable]`
	if reason, message := kube.ClassifyError(long); got.Error() != want || reason != kube.ReasonRejected || message != want {
		t.Errorf("got %v, %s: %s", got, reason, message)
	}
	if !apierrors.IsInvalid(got) || !kube.IsStale(got) || !errors.Is(got, long) {
		t.Error("it is another error")
	}
	if short := errors.New("short"); kube.Concise(short) != short || kube.Concise(nil) != nil {
		t.Error("an error that is plain is wrapped")
	}
}

func reasonOf(err error) kube.Reason {
	reason, _ := kube.ClassifyError(err)
	return reason
}

func TestIsOutage(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"the server is busy":                          {apierrors.NewTooManyRequests("busy", 1), true},
		"the server is starting":                      {apierrors.NewServiceUnavailable("starting"), true},
		"a gateway answers":                           {apierrors.NewGenericServerResponse(http.StatusBadGateway, "get", gizmos, "x", "<html>", 0, true), true},
		"a gateway finds no page":                     {apierrors.NewGenericServerResponse(http.StatusNotFound, "get", gizmos, "x", "<html>", 0, true), true},
		"the connection is refused":                   {&url.Error{Op: "Get", URL: "https://x", Err: errors.New("connection refused")}, true},
		"the answer ends in its middle":               {fmt.Errorf("read: %w", io.ErrUnexpectedEOF), true},
		"an object does not exist":                    {apierrors.NewNotFound(gizmos, "x"), false},
		"a request is forbidden":                      {apierrors.NewForbidden(gizmos, "x", errors.New("no role")), false},
		"an object is too large for the storage":      {answerOf(http.StatusInternalServerError, "etcdserver: request is too large"), false},
		"an object is not of the schema":              {answerOf(http.StatusInternalServerError, "failed to create typed patch object"), false},
		"a program is configured for another cluster": {errors.New("the leader is elected in another namespace"), false},
		"there is none":                               {nil, false},
	} {
		if got := kube.IsOutage(tc.err); got != tc.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
