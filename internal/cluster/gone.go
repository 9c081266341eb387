package cluster

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// IsGone says that the incarnation that a write was meant for isn't there any
// more: the object is gone, or another has its name.
func IsGone(err error) bool {
	if refused := (unchanged{}); errors.As(err, &refused) {
		return false
	}
	if apierrors.IsNotFound(err) || conflicts(err) {
		return true
	}
	return apierrors.IsInvalid(err) && apierrors.HasStatusCause(err, metav1.CauseTypeFieldValueInvalid) && onlyUID(err)
}

// onlyUID says that the server objects to metadata.uid, which is immutable: the
// name has another incarnation.
func onlyUID(err error) bool {
	status, ok := err.(apierrors.APIStatus)
	if !ok || status.Status().Details == nil {
		return false
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Field == "metadata.uid" {
			return true
		}
	}
	return false
}

// conflicts says that the server found another incarnation or another revision
// than a write was meant for. A webhook may refuse with the same code; its reason
// then is another, and nothing has come of the write. Of an apply that takes over
// nothing, the reason is the same where somebody else has a field; see Contested.
func conflicts(err error) bool {
	return apierrors.ReasonForError(err) == metav1.StatusReasonConflict && !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
}

// unlessGone is the error of a request about this very incarnation of an object,
// or nil if that isn't there any more. What an answer with the code of that says
// may be a webhook's, or that of a path which isn't served: so it is looked.
func (c *Client) unlessGone(ctx context.Context, o *unstructured.Unstructured, err error) error {
	if !IsGone(err) {
		return err
	}
	live, lookErr := c.Get(ctx, o.GroupVersionKind(), o.GetNamespace(), o.GetName())
	switch {
	case IsAbsent(lookErr, o.GetName()):
		return nil
	case lookErr != nil, live.GetUID() == o.GetUID():
		return err
	}
	return nil
}

// unlessUnchanged is the error of a write that was meant for this very revision of
// an object. One that says that the object is gone or changed, while it is neither,
// is a webhook's: no event follows it, and so it is none of IsGone's.
func (c *Client) unlessUnchanged(ctx context.Context, o *unstructured.Unstructured, err error) error {
	if !IsGone(err) {
		return err
	}
	live, lookErr := c.Get(ctx, o.GroupVersionKind(), o.GetNamespace(), o.GetName())
	switch {
	case IsAbsent(lookErr, o.GetName()):
		return err
	case lookErr != nil, live.GetUID() == o.GetUID() && live.GetResourceVersion() == o.GetResourceVersion():
		return unchanged{err}
	}
	return err
}

// unchanged is an answer that says of an object what isn't known to be so.
type unchanged struct{ error }

func (u unchanged) Unwrap() error { return u.error }

// IsAbsent says that the server knows no object of the name, and says so by name,
// rather than nothing that serves its kind: then the object may well be there.
func IsAbsent(err error, name string) bool {
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && !IsUnserved(err) &&
		errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Name == name
}

// IsUnserved says that a request found nothing at its path: its kind isn't served,
// any more or yet.
func IsUnserved(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) && apierrors.IsNotFound(err)
}
