package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/plan"
)

// Explain turns the error of a request into the problem that a node shows.
func Explain(err error) plan.Problem {
	message := Plain(err).Error()
	switch {
	case IsUnavailable(err):
		return plan.Problem{Reason: plan.WaitingForKind, Message: message}
	case apierrors.IsForbidden(err):
		return plan.Problem{Reason: plan.Forbidden, Message: message}
	case IsRefused(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsMethodNotSupported(err), apierrors.IsRequestEntityTooLargeError(err):
		return plan.Problem{Reason: plan.Rejected, Message: message}
	}
	return plan.Problem{Reason: plan.Unavailable, Message: message}
}

// Discreet tells of an error of a request what can't quote the object that was
// sent: the server's reason, what of which resource it forbids, and which fields it is about.
func Discreet(err error) string {
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

// Quiet wraps an error of a request so that its text can't quote the object that
// was sent, while what kind of error it is can still be told.
func Quiet(err error) error { return quiet{err} }

type quiet struct{ error }

func (q quiet) Error() string { return Discreet(q.error) }
func (q quiet) Unwrap() error { return q.error }

// Passes says whether a request that failed may work when it is repeated as it
// is, so that a retry with growing delay makes sense.
func Passes(err error) bool { return IsRefused(err) || Explain(err).Reason == plan.Unavailable }
