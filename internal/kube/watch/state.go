package watch

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Phase is the phase of the watch of a kind.
type Phase string

// The phases.
const (
	Unwatched   Phase = ""            // nothing watches it
	Syncing     Phase = "Syncing"     // the first list is not complete yet
	Synced      Phase = "Synced"      // reads are complete and current
	Unavailable Phase = "Unavailable" // see Reason; it is retried
)

// Reason is why a kind cannot be watched.
type Reason string

// The reasons.
const (
	WaitingForKind Reason = "WaitingForKind" // the API server does not serve it
	Forbidden      Reason = "Forbidden"      // the user is not allowed to list or watch it
	Degraded       Reason = "Degraded"       // any other failure, for example of a conversion webhook
	LimitExceeded  Reason = "LimitExceeded"  // a limit of Config.Quota is reached
)

// State is the state of the watch that serves a selection of a kind.
type State struct {
	Phase      Phase
	Reason     Reason    // of Unavailable
	Message    string    // for people
	Remedy     string    // how the kind comes to be served, if more is needed than a CustomResourceDefinition
	Since      time.Time // when Phase or Reason last changed
	Generation int64     // grows whenever watching starts over: the kind was deleted or changed
}

// UnavailableError says that a kind cannot be watched now. Config.Resolve returns it for
// kinds that do not exist.
type UnavailableError struct {
	Reason  Reason
	Message string
	// Remedy is the remedy of the State.
	Remedy string
	// Gone says that the kind does not exist, so neither do objects of it. Without it they
	// may exist and cannot be read.
	Gone bool
	// starting says that the API server is about to serve the kind.
	starting bool
}

func (e *UnavailableError) Error() string { return e.Message }

type requestError struct {
	verb string
	err  error
}

func (r *requestError) Error() string { return r.verb + " " + r.err.Error() }
func (r *requestError) Unwrap() error { return r.err }

// classify returns why a kind cannot be watched, with a message for users.
func classify(kind schema.GroupVersionKind, err error) *UnavailableError {
	var known *UnavailableError
	switch {
	case errors.As(err, &known):
		return known
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return &UnavailableError{Reason: WaitingForKind, Message: fmt.Sprintf("no matches for kind %q in version %q", kind.Kind, kind.GroupVersion())}
	case apierrors.IsForbidden(err):
		return &UnavailableError{Reason: Forbidden, Message: err.Error()}
	case isStarting(err):
		return &UnavailableError{Reason: Degraded, Message: err.Error(), starting: true}
	default:
		return &UnavailableError{Reason: Degraded, Message: err.Error()}
	}
}

// isExpired reports whether a request failed only because its revision is too old or not reached yet, which the next
// list corrects.
func isExpired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// isStarting reports whether the API server is not ready to serve a kind yet. Such an answer comes from the kind's
// handler, unlike an overloaded server's, which refuses before it looks at the kind.
func isStarting(err error) bool {
	return apierrors.IsTooManyRequests(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// For how long a kind may fail before its state changes. degradedGrace is for a kind that was synced, because a restart
// of the API server says nothing about the kind. startingGrace is for a kind that the API server is about to serve,
// which takes a moment, or for ever if an object cannot be converted.
const (
	degradedGrace = 10 * time.Second
	startingGrace = 3 * time.Second
)

// progress is what an actor knows of its watch; state derives what subscribers see of it.
type progress struct {
	listed, watching bool // from the beginning of the watch on
	complete         bool // the store was complete once, and the kind not gone since
	expired          bool // the revision of a request was too old; none has succeeded since
	failure          *UnavailableError
	failingSince     time.Time
}

// A kind that could not be resolved has failed too.
func (p *progress) recordFailure(why *UnavailableError, now time.Time) {
	p.watching = false
	if p.failure == nil || p.failure.Reason != why.Reason || p.failure.starting != why.starting {
		p.failingSince = now
	}
	p.failure = why
}

// gone says that the kind does not exist, so neither do its objects.
func (p *progress) gone() bool { return p.failure != nil && p.failure.Gone }

// recordSuccess records a list or a watch that succeeded. The watch is healthy only if both do:
// if one is forbidden, the other succeeds again with each attempt.
func (p *progress) recordSuccess() {
	if p.listed && p.watching {
		p.complete, p.expired, p.failure = true, false, nil
	}
}

func (p *progress) state(now time.Time) (Phase, Reason, string) {
	failing := now.Sub(p.failingSince)
	withinGrace := p.failure != nil && p.failure.Reason == Degraded &&
		(p.complete && failing < degradedGrace || p.failure.starting && failing < startingGrace)
	switch {
	case p.failure != nil && !withinGrace:
		return Unavailable, p.failure.Reason, p.failure.Message
	case p.complete:
		return Synced, "", ""
	default:
		return Syncing, "", ""
	}
}
