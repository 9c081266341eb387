// Package reconcile says how a reconcile ended: waiting is not an error, and an
// error is not a way to ask for another reconcile.
//
// Pure: it decides from values alone.
package reconcile

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/object"
)

// Result is how a reconcile ended. The zero value is not final: the reconcile goes on
// to its next stage.
type Result struct {
	// RequeueAfter asks for another reconcile after that time, unless an event comes
	// first; 0 asks for none.
	RequeueAfter time.Duration
	// Err is a failure. The reconcile is repeated with exponential backoff, and not
	// before RequeueAfter.
	Err error
	// Pending means that a request is accepted and has not succeeded yet: the backoff of
	// earlier failures stays.
	Pending bool
	final   bool
}

// Done ends the reconcile until the next event.
func Done() Result { return Result{final: true} }

// RequeueAfter ends the reconcile and asks for another after that time at the latest.
func RequeueAfter(after time.Duration) Result { return Result{RequeueAfter: after, final: true} }

// Pending ends the reconcile while an external API works on a request that it has accepted,
// and asks for another reconcile after that time at the latest. It is no success: if the API
// lets the request fail each time, the repetitions have a growing delay.
func Pending(after time.Duration) Result {
	return Result{RequeueAfter: after, Pending: true, final: true}
}

// Conflict ends the reconcile because another client changed the object first. The event
// of that change starts the next one. A conflict that an admission webhook answered has
// no event, nor has the 404 of a gateway before the API server, so the object is requeued
// after a while in any case.
func Conflict() Result { return RequeueAfter(conflictTimeout) }

// conflictTimeout is the time within which the event of a conflicting write must arrive.
const conflictTimeout = 10 * time.Second

// Fail ends the reconcile with an error.
func Fail(err error) Result { return Result{Err: err, final: true} }

// FailAfter ends the reconcile with an error of a server that asked to be retried only
// after that time.
func FailAfter(err error, after time.Duration) Result {
	return Result{Err: err, RequeueAfter: max(after, 0), final: true}
}

// IsFinal says whether the reconcile has ended.
func (r Result) IsFinal() bool { return r.final }

// Within asks for another reconcile after that time, unless the result asks for an earlier one or is a
// failure; 0 changes nothing.
func (r Result) Within(after time.Duration) Result {
	if after > 0 && r.Err == nil && (r.RequeueAfter == 0 || r.RequeueAfter > after) {
		r.RequeueAfter = after
	}
	return r
}

// OrDone ends a reconcile that has no further stage.
func (r Result) OrDone() Result {
	if r.final {
		return r
	}
	return Done()
}

// Outcome is the result in one word, for metrics and traces: done, waiting or failed.
func (r Result) Outcome() string {
	switch {
	case r.Err != nil:
		return "failed"
	case r.RequeueAfter > 0:
		return "waiting"
	}
	return "done"
}

// Run is a record of one reconcile of one object, for metrics and logs.
type Run struct {
	Kind schema.GroupVersionKind
	Key  object.Key
	// Waited is the time that the object spent in the queue.
	Waited time.Duration
	Began  time.Time
	Took   time.Duration
	Result
}
