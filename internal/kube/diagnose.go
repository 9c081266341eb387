package kube

import (
	"context"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// DiagnoseError returns the reason why the API server failed a request for an object, given
// the verb as authorization knows it, and a message. For a Forbidden answer it sends a
// SelfSubjectAccessReview: if that allows the verb, an admission webhook or policy has
// refused the request.
func (c *Client) DiagnoseError(ctx context.Context, o *unstructured.Unstructured, verb string, err error) (Reason, string) {
	message := err.Error()
	if o.GroupVersionKind().GroupKind() == secrets || verb != "delete" {
		message = RedactedMessage(err) // the refusal of a change may quote the content of the object
	}
	var status apierrors.APIStatus
	if IsNoKindMatch(err) {
		return ReasonKindUnavailable, message
	}
	if !errors.As(err, &status) {
		return ReasonOutOfReach, message
	}
	switch code := status.Status().Code; {
	case code == http.StatusForbidden:
		if allowed, reviewErr := c.isVerbAllowed(ctx, o, verb); reviewErr == nil && allowed {
			return ReasonDeniedByWebhook, message
		}
		return ReasonForbidden, message
	case code == http.StatusUnauthorized, code == http.StatusMethodNotAllowed:
		return ReasonForbidden, message
	case IsKindNotServed(err):
		return ReasonKindUnavailable, message // the path is not found, not the object
	case code >= 500 && failedWebhook(err) != "":
		return ReasonWebhookUnavailable, message + c.webhookConfigurations(ctx, failedWebhook(err))
	case code == http.StatusRequestTimeout, code == http.StatusTooManyRequests, code < 400, code >= 500:
		return ReasonOutOfReach, message
	}
	return ReasonDeniedByWebhook, message // nothing else refuses a request without content
}

var (
	secrets       = schema.GroupKind{Kind: "Secret"}
	accessReviews = schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "selfsubjectaccessreviews"}
)

func (c *Client) isVerbAllowed(ctx context.Context, o *unstructured.Unstructured, verb string) (bool, error) {
	r, err := c.kinds.Resolve(ctx, o.GroupVersionKind())
	if err != nil {
		return false, err
	}
	return c.reviewAccess(ctx, map[string]any{
		"verb": verb, "group": r.GVR.Group, "version": r.GVR.Version, "resource": r.GVR.Resource,
		"namespace": o.GetNamespace(), "name": o.GetName(),
	})
}
