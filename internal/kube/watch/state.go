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

// Phase is how far the watch of a kind has come.
type Phase string

// The phases.
const (
	Unwatched   Phase = ""            // nobody wants it
	Syncing     Phase = "Syncing"     // the first list is under way
	Synced      Phase = "Synced"      // reads are complete and current
	Unavailable Phase = "Unavailable" // Reason says why; it is retried
)

// Reason is why a kind can't be watched.
type Reason string

// The reasons.
const (
	WaitingForKind Reason = "WaitingForKind" // the API server doesn't serve it
	Forbidden      Reason = "Forbidden"      // we may not list or watch it
	Degraded       Reason = "Degraded"       // anything else, a failing conversion webhook say
)

// State is the state of the watch that serves a selection of a kind.
type State struct {
	Phase      Phase
	Reason     Reason    // of Unavailable
	Message    string    // for people
	Since      time.Time // when Phase or Reason last changed
	Generation int64     // grows whenever watching starts anew: the kind went, or changed
}

// UnavailableError says that a kind can't be watched now. Config.Resolve
// returns it for kinds that don't exist.
type UnavailableError struct {
	Reason  Reason
	Message string
	// Gone says that the kind doesn't exist, and so neither do objects of it.
	// Without it they may be there, and are only not to be read.
	Gone bool
	// starting says that the API server is about to serve the kind.
	starting bool
}

func (e *UnavailableError) Error() string { return e.Message }

// refusal is a request that the API server didn't grant.
type refusal struct {
	verb string
	err  error
}

func (r *refusal) Error() string { return r.verb + " " + r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// classify says why a kind can't be watched, in words that a person can act on.
func classify(kind schema.GroupVersionKind, err error) *UnavailableError {
	var known *UnavailableError
	switch {
	case errors.As(err, &known):
		return known
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return &UnavailableError{Reason: WaitingForKind, Message: fmt.Sprintf("the cluster serves no %s in %s", kind.Kind, kind.GroupVersion())}
	case apierrors.IsForbidden(err):
		return &UnavailableError{Reason: Forbidden, Message: err.Error()}
	case starting(err):
		return &UnavailableError{Reason: Degraded, Message: err.Error(), starting: true}
	default:
		return &UnavailableError{Reason: Degraded, Message: err.Error()}
	}
}

// outdated tells whether a request failed only because the revision that it
// asked for is gone or not there yet, which the next list heals.
func outdated(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// starting tells whether the API server isn't ready to serve a kind. It says so
// itself, unlike one that has too much to do, which refuses before it looks at the
// kind.
func starting(err error) bool {
	return apierrors.IsTooManyRequests(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// For how long a kind may fail before anybody is told: one that was synced, since
// an API server that restarts is no news about a kind, and one that is being made
// ready, which takes a moment, or for ever while an object can't be converted.
const (
	patience = 10 * time.Second
	startup  = 3 * time.Second
)

// progress is what an actor knows of its watch.
type progress struct {
	listed, watching bool // since watching began
	complete         bool // the store has been true once, and the kind not lost since
	failure          *UnavailableError
	failingSince     time.Time
}

func (p *progress) failed(why *UnavailableError, now time.Time) {
	p.watching = false
	if p.failure == nil || p.failure.Reason != why.Reason || p.failure.starting != why.starting {
		p.failingSince = now
	}
	p.failure = why
}

// gone says that the kind isn't there, and neither are its objects.
func (p *progress) gone() bool { return p.failure != nil && p.failure.Gone }

// advanced notes a list or a watch that succeeded. Only both together are
// health: where one of them is forbidden, the other's success comes again with
// each attempt.
func (p *progress) advanced() {
	if p.listed && p.watching {
		p.complete, p.failure = true, nil
	}
}

// state is what subscribers are told.
func (p *progress) state(now time.Time) (Phase, Reason, string) {
	failing := now.Sub(p.failingSince)
	patient := p.failure != nil && p.failure.Reason == Degraded &&
		(p.complete && failing < patience || p.failure.starting && failing < startup)
	switch {
	case p.failure != nil && !patient:
		return Unavailable, p.failure.Reason, p.failure.Message
	case p.complete:
		return Synced, "", ""
	default:
		return Syncing, "", ""
	}
}
