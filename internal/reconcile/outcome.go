// Package reconcile says how a pass of a reconcile ended: waiting is not an
// error, and an error is not a way to ask for another turn.
//
// Pure: it decides from values alone.
package reconcile

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/object"
)

// Outcome is how a pass ended. The zero value means done: nothing to do until
// an event comes.
type Outcome struct {
	// After asks for another pass after so long, events aside; 0 asks for none.
	After time.Duration
	// Err is a failure: something that should have worked and didn't. The pass
	// is repeated with a growing delay, and not before After.
	Err     error
	settled bool
}

// Done ends the pass: the next event starts another.
func Done() Outcome { return Outcome{settled: true} }

// Wait ends the pass and asks for another after so long at the latest.
func Wait(after time.Duration) Outcome { return Outcome{After: after, settled: true} }

// Overtaken ends the pass, since somebody else has written what it was about to: the
// event of that starts another. That there is none, because the answer was a
// webhook's, costs a look after a while.
func Overtaken() Outcome { return Wait(overtaken) }

// overtaken is by when the event must have come.
const overtaken = 10 * time.Second

// Fail ends the pass with an error.
func Fail(err error) Outcome { return Outcome{Err: err, settled: true} }

// FailUntil ends the pass with an error of somebody who has said for how long he wants
// to be left alone.
func FailUntil(err error, after time.Duration) Outcome {
	return Outcome{Err: err, After: max(after, 0), settled: true}
}

// Settled says whether the pass is over. The zero value is not: it lets a story
// go on.
func (o Outcome) Settled() bool { return o.settled }

// Pass is one pass over one object, for those who count them.
type Pass struct {
	Kind schema.GroupVersionKind
	Key  object.Key
	// Waited is how long the object had been asked for when the pass began.
	Waited time.Duration
	Began  time.Time
	Took   time.Duration
	Outcome
}
