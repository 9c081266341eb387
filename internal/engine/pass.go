package engine

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/outcome"
)

// work takes turns until the queue is closed.
func (e *Engine) work() {
	for {
		t, ok := e.queue.get()
		if !ok {
			return
		}
		if t.lane.of.life.Err() == nil {
			e.pass(t)
		}
		t.done()
	}
}

// pass runs one reconcile and turns its outcome into what comes next.
func (e *Engine) pass(t turn) {
	c, key := t.lane.of, t.key()
	ctx, cancel := context.WithTimeout(c.life, e.Timeout)
	defer cancel()
	log := e.Log.WithValues("kind", key.Kind, "namespace", key.Namespace, "name", key.Name)
	ctx = logr.NewContext(ctx, log)
	began := time.Now()
	out := guarded(ctx, c.reconciler, key)
	if e.Observe != nil {
		e.Observe(outcome.Pass{
			Kind: c.Kind, Key: key, Waited: began.Sub(t.ask.since), Began: began, Took: time.Since(began), Outcome: out,
		})
	}
	if out.Err == nil {
		t.succeeded(out.After)
		return
	}
	if !c.ending() {
		log.Error(out.Err, "reconcile failed; it is repeated with a growing delay")
	}
	t.failed(out.After)
}

// ending tells whether the controller is being stopped, or the whole engine. What
// fails then is nobody's concern: it was cut short, or a successor meets it again.
func (c *Controller) ending() bool { return c.stopping.Load() || c.life.Err() != nil }

// guarded turns a panic into a failure: a mistake in handling one object must
// not stop all others.
func guarded(ctx context.Context, r Reconciler, key object.Key) (out outcome.Outcome) {
	defer func() {
		if p := recover(); p != nil {
			out = outcome.Fail(fmt.Errorf("%s\n%s", panicked(p), debug.Stack()))
		}
	}()
	return r.Reconcile(ctx, key)
}

// panicked says what a pass panicked with: the text of a mistake in the program,
// and of anything else its type alone, for its values may hold what a Secret
// holds.
func panicked(with any) string {
	if mistake, ok := with.(runtime.Error); ok {
		return fmt.Sprintf("panic: %v", mistake)
	}
	return fmt.Sprintf("panic with a %T", with)
}
