package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reason says why a request failed, in one word.
type Reason string

// Reasons of requests that failed.
const (
	ReasonWaitingForKind     Reason = "WaitingForKind"
	ReasonForbidden          Reason = "Forbidden"
	ReasonRejected           Reason = "Rejected"
	ReasonUnavailable        Reason = "Unavailable"
	ReasonKindUnavailable    Reason = "KindUnavailable"
	ReasonOutOfReach         Reason = "OutOfReach"
	ReasonDeniedByWebhook    Reason = "DeniedByWebhook"
	ReasonWebhookUnavailable Reason = "WebhookUnavailable"
)

// Explain says why a request for a child failed, in words that a status can show.
func Explain(err error) (Reason, string) {
	message := Concise(err).Error()
	switch {
	case IsUnavailable(err):
		return ReasonWaitingForKind, message
	case apierrors.IsForbidden(err):
		return ReasonForbidden, message
	case IsWebhookConflict(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsMethodNotSupported(err), apierrors.IsRequestEntityTooLargeError(err):
		return ReasonRejected, message
	}
	return ReasonUnavailable, message
}

// RedactedMessage tells of an error of a request what can't quote the object that was
// sent: the server's reason, what of which resource it forbids, and which fields it is about.
func RedactedMessage(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return unanswered(err)
	}
	said := status.Status()
	text := "the API server answers " + answered(said)
	if said.Details != nil {
		if what, ok := attempt(err); ok {
			text += " to " + what.String()
		}
		for _, cause := range said.Details.Causes {
			text += fmt.Sprintf("; %s: %s", cause.Field, cause.Type)
		}
	}
	return text
}

// answered names an answer: by its reason, or, since not every answer has one, by its code.
func answered(said metav1.Status) string {
	if said.Reason != metav1.StatusReasonUnknown {
		return string(said.Reason)
	}
	if text := http.StatusText(int(said.Code)); text != "" {
		return fmt.Sprintf("%d %s, without a reason", said.Code, text)
	}
	return "without a reason"
}

// unanswered says why there is no answer, without the URL that was asked: it has the
// object's name.
func unanswered(err error) string {
	var transport *url.Error
	switch {
	case IsUnavailable(err):
		return err.Error()
	case errors.As(err, &transport):
		return "the API server does not answer: " + transport.Err.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "the API server does not answer in time"
	}
	return "the request failed before the API server answered"
}

// Redacted wraps an error of a request so that its text can't quote the object that
// was sent, while what kind of error it is can still be told.
func Redacted(err error) error { return quiet{err} }

type quiet struct{ error }

func (q quiet) Error() string { return RedactedMessage(q.error) }
func (q quiet) Unwrap() error { return q.error }

// IsTransient says whether a request that failed may work when it is repeated as it
// is, so that a retry with growing delay makes sense.
func IsTransient(err error) bool {
	reason, _ := Explain(err)
	return IsWebhookConflict(err) || reason == ReasonUnavailable
}
