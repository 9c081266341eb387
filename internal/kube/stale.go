package kube

import (
	"context"
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// IsStale says that a write was meant for an incarnation of an object that is gone or
// replaced, or for a revision that is no longer the last. An event reports the change in
// each case. Methods of Client read the object to confirm it before they return such an
// error.
func IsStale(err error) bool {
	if isUnconfirmed(err) {
		return false
	}
	if apierrors.IsNotFound(err) || isConflict(err) {
		return true
	}
	return apierrors.IsInvalid(err) && apierrors.HasStatusCause(err, metav1.CauseTypeFieldValueInvalid) && isUIDConflict(err)
}

// IsNamespaceMissing reports whether an object was not created because its namespace does not exist.
func IsNamespaceMissing(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Kind == "namespaces"
}

// isUIDConflict reports whether the server rejects metadata.uid, which is immutable: the name has another incarnation.
func isUIDConflict(err error) bool {
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

// isConflict reports whether the server found another incarnation or revision than the write was meant for. A webhook
// may refuse with the same code, but with another reason. An apply without force has the same reason where another
// manager has a field; FieldConflicts recognizes that one.
func isConflict(err error) bool {
	return apierrors.ReasonForError(err) == metav1.StatusReasonConflict && !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
}

// ignoreGone returns the error of a request for this incarnation of an object, or nil if
// the incarnation is gone. The answer alone does not prove that: it may come from a
// webhook, or from a path that is not served. So the object is read.
func (c *Client) ignoreGone(ctx context.Context, o *unstructured.Unstructured, err error) error {
	if !IsStale(err) {
		return err
	}
	live, readErr := c.Get(ctx, o.GroupVersionKind(), o.GetNamespace(), o.GetName())
	switch {
	case IsObjectNotFound(readErr, o.GetName()):
		return nil
	case readErr != nil, live.GetUID() == o.GetUID():
		return err
	}
	return nil
}

// It is confirmStale for a write to this revision of an object.
func (c *Client) confirmStaleRevision(ctx context.Context, o *unstructured.Unstructured, err error) error {
	return c.confirmStale(ctx, o, o.GetUID(), o.GetResourceVersion(), err)
}

// confirmStale returns the error of a write to an incarnation of an object, and to one revision of it if revision is
// not empty. An error that wrongly says that the object is gone or changed comes from an admission webhook. No event
// follows it, so it must not satisfy IsStale: a caller that waits for the event would wait for ever. Only a read of the
// object can tell, which is acceptable because such errors are rare.
func (c *Client) confirmStale(ctx context.Context, o *unstructured.Unstructured, uid types.UID, revision string, err error) error {
	if !IsStale(err) {
		return err
	}
	live, readErr := c.Get(ctx, o.GroupVersionKind(), o.GetNamespace(), o.GetName())
	switch {
	case IsObjectNotFound(readErr, o.GetName()), IsKindNotServed(readErr):
		return err
	case readErr != nil:
		return unconfirmedConflict{error: err}
	case live.GetUID() == uid && (revision == "" || live.GetResourceVersion() == revision):
		return unconfirmedConflict{error: err, refuted: true}
	}
	return err
}

// unconfirmedConflict is an answer that the object is gone, changed or exists, which a read
// did not confirm. If refuted, the read proved it wrong: an admission webhook refused the
// write.
type unconfirmedConflict struct {
	error
	refuted bool
}

func (u unconfirmedConflict) Unwrap() error { return u.error }

func isUnconfirmed(err error) bool {
	var u unconfirmedConflict
	return errors.As(err, &u)
}

// IsWebhookConflict says that an admission webhook refused a write with a code that says
// that the object is gone, changed, or exists. None of these is true, so no event brings
// another attempt.
func IsWebhookConflict(err error) bool {
	var u unconfirmedConflict
	return errors.As(err, &u) && u.refuted
}

// IsPermanent says that a write was refused for a reason that does not soon pass by itself:
// a user has to act.
func IsPermanent(err error) bool {
	return err != nil && !IsNoKindMatch(err) && (IsWebhookConflict(err) || !IsTransient(err))
}

// IsOutcomeUnknown says that a request got no answer: the API server may have carried it
// out.
func IsOutcomeUnknown(err error) bool {
	var status apierrors.APIStatus
	return err != nil && (!errors.As(err, &status) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err))
}

// IsObjectNotFound says that the server has no object of the name. A NotFound that does not
// name the object says only that the kind is not served; the object may exist.
func IsObjectNotFound(err error, name string) bool {
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && !IsKindNotServed(err) &&
		errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Name == name
}

// IsKindTerminating says that an object was not created because the CustomResourceDefinition of its kind is being
// deleted. The API server says that only in the text of a Forbidden answer.
func IsKindTerminating(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsForbidden(err) && errors.As(err, &status) &&
		strings.HasSuffix(status.Status().Message, "create not allowed while custom resource definition is terminating")
}

// IsKindNotServed says that the server serves nothing at the path of the request: it does
// not serve the kind any more, or not yet.
func IsKindNotServed(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) && apierrors.IsNotFound(err)
}
