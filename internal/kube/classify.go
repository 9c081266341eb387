package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reason classifies the error of a request.
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

// ClassifyError returns the reason why a request for a child failed, and a message fit for
// a status.
func ClassifyError(err error) (Reason, string) {
	message := Concise(err).Error()
	switch {
	case IsNoKindMatch(err), IsKindTerminating(err):
		return ReasonWaitingForKind, message
	case apierrors.IsForbidden(err):
		return ReasonForbidden, message
	case IsWebhookConflict(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsMethodNotSupported(err), IsTooLarge(err), IsMistyped(err):
		return ReasonRejected, message
	}
	return ReasonUnavailable, message
}

// IsTooLarge reports that the API server does not accept a request of that size, or its storage does not store an
// object of that size.
func IsTooLarge(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	if apierrors.IsRequestEntityTooLargeError(err) {
		return true
	}
	answer := status.Status() // the error of the storage has a text only
	return answer.Code == http.StatusInternalServerError && (strings.Contains(answer.Message, "etcdserver: request is too large") ||
		strings.Contains(answer.Message, "trying to send message larger than max"))
}

// IsMistyped reports that an applied object does not match the fields and types of its kind's schema. The API server
// answers with the code of an internal error.
func IsMistyped(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	answer := status.Status()
	return answer.Code == http.StatusInternalServerError && strings.Contains(answer.Message, "failed to create typed patch object")
}

// RedactedMessage describes the error of a request without quoting the object that was
// sent: the server's reason, the forbidden verb and resource, and the fields in question.
func RedactedMessage(err error) string { return redactedMessage(err, true) }

func redactedMessage(err error, withFields bool) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return describeNoAnswer(err)
	}
	if IsTooLarge(err) {
		return "the object is too large for the API server"
	}
	if IsMistyped(err) {
		return "the object does not have the fields and types of its kind's schema"
	}
	answer := status.Status()
	text := "the API server answers " + describeStatus(answer)
	if answer.Details != nil {
		if what, ok := forbiddenPermission(err); ok {
			text += " to " + what.String()
		}
		for _, cause := range answer.Details.Causes {
			switch {
			case !withFields, cause.Field == "" && cause.Type == "": // an admission policy has a message only
			case cause.Type == metav1.CauseTypeUnexpectedServerResponse: // of the client, for an answer that is no Status
			case cause.Field == "":
				text += "; " + string(cause.Type)
			default:
				text += fmt.Sprintf("; %s: %s", RedactedField(cause.Field), cause.Type)
			}
		}
	}
	return text
}

// Not every answer has a reason; the others are named by their code.
func describeStatus(answer metav1.Status) string {
	if answer.Reason != metav1.StatusReasonUnknown {
		return string(answer.Reason)
	}
	if text := http.StatusText(int(answer.Code)); text != "" {
		return fmt.Sprintf("%d %s, without a reason", answer.Code, text)
	}
	return "without a reason"
}

// RedactedTexter is an error other than of a request to the API server, with a text without values of objects.
type RedactedTexter interface{ RedactedText() string }

// It leaves out the URL, which contains the object's name.
func describeNoAnswer(err error) string {
	var transport *url.Error
	var redacted RedactedTexter
	switch {
	case errors.As(err, &redacted):
		return redacted.RedactedText()
	case IsNoKindMatch(err):
		return err.Error()
	case errors.As(err, &transport):
		return "the API server does not answer: " + transport.Err.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "the API server does not answer in time"
	}
	return "the request failed before the API server answered"
}

// Redacted wraps the error of a request so its text cannot quote the object that was sent. errors.As and errors.Is
// still see the error.
func Redacted(err error) error { return redactedError{err, true} }

// RedactedWithoutFields is Redacted for an object whose field names must not be shown either.
func RedactedWithoutFields(err error) error { return redactedError{err, false} }

type redactedError struct {
	error
	withFields bool
}

func (q redactedError) Error() string { return redactedMessage(q.error, q.withFields) }
func (q redactedError) Unwrap() error { return q.error }

// bracketsInField matches an index, or what the server quotes from an object in the path of a field:
// an item of a list that is found by its fields or its value, with texts in quotes, or a key of a
// map. A key is not quoted and may contain brackets, so it ends at the last one.
var bracketsInField = regexp.MustCompile(`(?s)(\[[0-9]+\])|\[(?:[^"\[\]]*"(?:[^"\\]|\\.)*")+[^"\[\]]*\]|\[.*(?:\]|$)`)

// RedactedField is the path of a field, as the server names it, without content of the object.
func RedactedField(field string) string {
	return bracketsInField.ReplaceAllStringFunc(field, func(brackets string) string {
		if index := bracketsInField.FindStringSubmatch(brackets)[1]; index != "" {
			return index
		}
		return "[…]"
	})
}

// IsTransient reports whether a failed request may succeed unchanged when it is retried with backoff.
func IsTransient(err error) bool {
	reason, _ := ClassifyError(err)
	return IsWebhookConflict(err) || reason == ReasonUnavailable
}

// IsOutage reports that a request failed because the API server is not reached, or is busy or starting, and for no
// reason in the request or in the cluster.
func IsOutage(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		code := status.Status().Code
		isBusy := code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
		return isBusy && IsTransient(err) || IsKindNotServed(err)
	}
	var request *url.Error
	var network net.Error
	var discovery undiscoveredError
	return errors.As(err, &request) || errors.As(err, &network) || errors.As(err, &discovery) || errors.Is(err, io.ErrUnexpectedEOF)
}
