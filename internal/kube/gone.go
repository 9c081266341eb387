package kube

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// IsGone says that the incarnation that a write was meant for isn't there any
// more: the object is gone, or another has its name. Or that the revision isn't the last
// any more, if the write was meant for one. In each case an event tells of it. Writes of a
// Client look whether it is so before they return such an error.
func IsGone(err error) bool {
	if isUnchanged(err) {
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
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
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
	case IsObjectNotFound(lookErr, o.GetName()):
		return nil
	case lookErr != nil, live.GetUID() == o.GetUID():
		return err
	}
	return nil
}

// unlessUnchanged is the error of a write that was meant for this very revision of an
// object; see checked.
func (c *Client) unlessUnchanged(ctx context.Context, o *unstructured.Unstructured, err error) error {
	return c.checked(ctx, o, o.GetUID(), o.GetResourceVersion(), err)
}

// checked is the error of a write that was meant for an incarnation of an object, and, if
// revision isn't empty, for this one of its revisions. An error that says that the object
// is gone or changed, while it is neither, is an admission webhook's. No event follows it,
// so it must not be one of IsGone's: whoever waits for the event would wait for ever.
// Only the object itself tells, which costs a read; such errors are rare.
func (c *Client) checked(ctx context.Context, o *unstructured.Unstructured, uid types.UID, revision string, err error) error {
	if !IsGone(err) {
		return err
	}
	live, lookErr := c.Get(ctx, o.GroupVersionKind(), o.GetNamespace(), o.GetName())
	switch {
	case IsObjectNotFound(lookErr, o.GetName()), IsKindNotServed(lookErr):
		return err
	case lookErr != nil:
		return unchanged{error: err}
	case live.GetUID() == uid && (revision == "" || live.GetResourceVersion() == revision):
		return unchanged{error: err, seen: true}
	}
	return err
}

// unchanged is an answer that says of an object what isn't known to be so. Seen says that
// it is known not to be: then an admission webhook has refused the write.
type unchanged struct {
	error
	seen bool
}

func (u unchanged) Unwrap() error { return u.error }

func isUnchanged(err error) bool {
	var u unchanged
	return errors.As(err, &u)
}

// IsWebhookConflict says that an admission webhook has refused a write as if the object were gone,
// changed, or there already. It is none of those, so that no event brings another attempt.
func IsWebhookConflict(err error) bool {
	var u unchanged
	return errors.As(err, &u) && u.seen
}

// IsPermanent says that a write was refused for a reason that doesn't pass by itself, soon at
// least: somebody has to do something about it.
func IsPermanent(err error) bool {
	return err != nil && !IsUnavailable(err) && (IsWebhookConflict(err) || !IsTransient(err))
}

// IsOutcomeUnknown says that it isn't known what has become of a request: the API server may
// have carried it out, and its answer never came.
func IsOutcomeUnknown(err error) bool {
	var status apierrors.APIStatus
	return err != nil && (!errors.As(err, &status) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err))
}

// IsObjectNotFound says that the server knows no object of the name, and says so by name,
// rather than nothing that serves its kind: then the object may well be there.
func IsObjectNotFound(err error, name string) bool {
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && !IsKindNotServed(err) &&
		errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Name == name
}

// IsKindNotServed says that a request found nothing at its path: its kind isn't served,
// any more or yet.
func IsKindNotServed(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) && apierrors.IsNotFound(err)
}
