package watch

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
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
	default:
		return &UnavailableError{Reason: Degraded, Message: err.Error()}
	}
}

// outdated tells whether a request failed only because the revision that it
// asked for is gone or not there yet, which the next list heals.
func outdated(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// patience is for how long a kind that was synced may fail before anybody is
// told: an API server that restarts is no news about a kind.
const patience = 10 * time.Second

// progress is what an actor knows of its watch.
type progress struct {
	listed, watching bool // since watching began
	complete         bool // the store has been true once, and the kind not lost since
	failure          *UnavailableError
	failingSince     time.Time
}

func (p *progress) failed(why *UnavailableError, now time.Time) {
	p.watching = false
	if p.failure == nil {
		p.failingSince = now
	}
	p.failure = why
}

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
	patient := p.complete && p.failure != nil && p.failure.Reason == Degraded &&
		now.Sub(p.failingSince) < patience
	switch {
	case p.failure != nil && !patient:
		return Unavailable, p.failure.Reason, p.failure.Message
	case p.complete:
		return Synced, "", ""
	default:
		return Syncing, "", ""
	}
}
