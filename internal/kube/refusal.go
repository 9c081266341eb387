package kube

import (
	"context"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// WhyNot says why the API server did not do what was asked about an object, by
// the verb as authorization knows it. Where it forbids, it is asked whether it is
// us whom it doesn't let: if it would, an admission webhook or policy has refused.
func (c *Client) WhyNot(ctx context.Context, o *unstructured.Unstructured, verb string, err error) (Reason, string) {
	message := err.Error()
	if o.GroupVersionKind().GroupKind() == secrets || verb != "delete" {
		message = RedactedMessage(err) // what refuses a change may quote what the object holds
	}
	var status apierrors.APIStatus
	if IsUnavailable(err) {
		return ReasonKindUnavailable, message
	}
	if !errors.As(err, &status) {
		return ReasonOutOfReach, message
	}
	switch code := status.Status().Code; {
	case code == http.StatusForbidden:
		if allowed, reviewErr := c.may(ctx, o, verb); reviewErr == nil && allowed {
			return ReasonDeniedByWebhook, message
		}
		return ReasonForbidden, message
	case code == http.StatusUnauthorized, code == http.StatusMethodNotAllowed:
		return ReasonForbidden, message
	case IsKindNotServed(err):
		return ReasonKindUnavailable, message // of its path, not of the object
	case code >= 500 && unansweredWebhook(err) != "":
		return ReasonWebhookUnavailable, message + c.configuredBy(ctx, unansweredWebhook(err))
	case code == http.StatusRequestTimeout, code == http.StatusTooManyRequests, code < 400, code >= 500:
		return ReasonOutOfReach, message
	}
	return ReasonDeniedByWebhook, message // nothing else refuses what names an object and no more
}

var (
	secrets       = schema.GroupKind{Kind: "Secret"}
	accessReviews = schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "selfsubjectaccessreviews"}
)

// may asks whether we are allowed something about an object.
func (c *Client) may(ctx context.Context, o *unstructured.Unstructured, verb string) (bool, error) {
	r, err := c.kinds.Resolve(ctx, o.GroupVersionKind())
	if err != nil {
		return false, err
	}
	return c.review(ctx, map[string]any{
		"verb": verb, "group": r.GVR.Group, "version": r.GVR.Version, "resource": r.GVR.Resource,
		"namespace": o.GetNamespace(), "name": o.GetName(),
	})
}
