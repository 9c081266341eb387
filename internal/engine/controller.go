package engine

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/watch"
)

// stopGrace is for how long a stop lets passes in flight end by themselves. Nearly
// all do in less, and what they were about to write needn't be found out again;
// whoever replaces the controller waits for as long.
const stopGrace = 5 * time.Second

// Controller is one kind being served. It has an identity of its own: stopping
// it can't hit a successor for the same kind.
type Controller struct {
	Kind       schema.GroupVersionKind
	engine     *Engine
	lane       *lane
	reconciler Reconciler

	// life is the context of its passes.
	life context.Context
	end  context.CancelFunc

	stopping atomic.Bool
	stopped  chan struct{}

	// served is closed once serving is there: a controller can be found, and
	// stopped, a moment before.
	served  chan struct{}
	serving *watch.Serving
}

// Start serves a kind with a reconciler, in place of whatever served it before:
// that is stopped first, as by Stop, so that the two never work on one object at
// once. The reconciler is asked for every object that there is, and must not
// itself start or stop its own kind.
//
// Where changed isn't nil, it is called when the state of the kind's watch
// changes. It must not block. Calls may come before Start returns, and one that is
// on its way after a stop.
func (e *Engine) Start(kind schema.GroupVersionKind, r Reconciler, changed func()) *Controller {
	c := &Controller{Kind: kind, engine: e, reconciler: r, served: make(chan struct{}), stopped: make(chan struct{})}
	c.life, c.end = context.WithCancel(e.life)
	c.lane = e.queue.open(c)
	for previous := e.succeed(c); previous != nil; previous = e.succeed(c) {
		previous.Stop()
	}
	c.serving = e.Hub.Serve(kind, func(key object.Key, cause watch.Cause) {
		switch {
		case key.Name != "":
			c.Wake(key, cause.Priority)
		case changed != nil:
			changed()
		}
	})
	close(c.served)
	return c
}

// succeed makes the controller its kind's, unless another still is, which it
// returns.
func (e *Engine) succeed(c *Controller) (previous *Controller) {
	e.mu.Lock()
	defer e.mu.Unlock()
	previous = e.running[c.Kind.GroupKind()]
	if previous == nil {
		e.running[c.Kind.GroupKind()] = c
	}
	return previous
}

// Wake asks for a pass over one object.
func (c *Controller) Wake(key object.Key, p watch.Priority) { c.lane.add(key, p) }

// State is the state of the kind's watch.
func (c *Controller) State() watch.State {
	<-c.served
	return c.serving.State()
}

// Stop ends the serving of the kind. It returns once passes in flight are over,
// which end by themselves or, after a short grace, because their context does. It
// starts nothing, and may be called again, also when the kind has a new
// controller, which it leaves alone.
func (c *Controller) Stop() {
	if !c.stopping.CompareAndSwap(false, true) {
		<-c.stopped
		return
	}
	defer close(c.stopped)
	<-c.served
	c.serving.Stop()
	c.drain(c.lane.close())
	// The lane took with it the passes that would have seen instances go, and
	// forgotten them: nobody else would drop their leases. A successor looks at every
	// object there is and leases anew, so only now may it start, and also because it
	// works on the same objects.
	c.engine.Hub.ForgetKind(c.Kind.GroupKind())
	c.engine.mu.Lock()
	delete(c.engine.running, c.Kind.GroupKind())
	c.engine.mu.Unlock()
}

// drain waits until passes in flight are over, and sees to it that they will be.
func (c *Controller) drain(over <-chan struct{}) {
	defer c.end()
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case <-over:
	case <-grace.C:
		c.end()
		<-over
	}
}
