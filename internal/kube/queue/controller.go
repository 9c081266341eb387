package queue

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

// stopGrace is how long Stop waits for reconciles in flight before it cancels them. Nearly all end sooner, so their
// work is not lost; a successor of the controller waits as long.
const stopGrace = 5 * time.Second

// Controller reconciles the objects of one kind. It has its own identity: stopping it
// cannot stop a successor for the same kind.
type Controller struct {
	Kind       schema.GroupVersionKind
	engine     *Engine
	queue      *kindQueue
	reconciler Reconciler

	ctx    context.Context
	cancel context.CancelFunc

	stopping atomic.Bool
	stopped  chan struct{}

	// started is closed once kindWatch is set: a controller can be found, and
	// stopped, a moment before.
	started   chan struct{}
	kindWatch *watch.KindWatch
}

// Start serves a kind with a reconciler, in place of the controller that served it before. That is stopped first, as by
// Stop, so the two never work on one object at once. The reconciler is called for every object that exists, and must
// not itself start or stop its own kind.
//
// Changed, unless nil, is called when the state of the kind's watch changes. It must not block. It may be called before
// Start returns, and once more after a stop.
func (e *Engine) Start(kind schema.GroupVersionKind, r Reconciler, changed func()) *Controller {
	c := &Controller{Kind: kind, engine: e, reconciler: r, started: make(chan struct{}), stopped: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancel(e.ctx)
	c.queue = e.open(c)
	for previous := e.register(c); previous != nil; previous = e.register(c) {
		previous.Stop()
	}
	c.kindWatch = e.Hub.WatchKind(kind, func(key object.Key, cause watch.Cause) {
		switch {
		case key.Name != "":
			c.enqueue(key, cause)
		case changed != nil:
			changed()
		}
	})
	close(c.started)
	return c
}

// If the kind still has another controller, it registers nothing and returns that.
func (e *Engine) register(c *Controller) (previous *Controller) {
	e.mu.Lock()
	defer e.mu.Unlock()
	previous = e.running[c.Kind.GroupKind()]
	if previous == nil {
		e.running[c.Kind.GroupKind()] = c
	}
	return previous
}

// Enqueue enqueues an object.
func (c *Controller) Enqueue(key object.Key, p watch.Priority) {
	c.enqueue(key, watch.Cause{Priority: p})
}

// EnqueueAll enqueues all objects of the kind with low priority.
func (c *Controller) EnqueueAll() {
	for _, key := range c.engine.Hub.Keys(c.Kind) {
		c.enqueue(key, watch.Cause{Priority: watch.Background})
	}
}

func (c *Controller) enqueue(key object.Key, cause watch.Cause) {
	namespace := key.Namespace
	if onBehalfOf := c.engine.OnBehalfOf; namespace == "" && onBehalfOf != nil {
		namespace = onBehalfOf(c.Kind, key)
	}
	c.queue.AddFor(namespace, key, cause)
}

// State is the state of the kind's watch.
func (c *Controller) State() watch.State {
	<-c.started
	return c.kindWatch.State()
}

// Stop stops serving the kind. It returns once the reconciles in flight have ended, by themselves or, after stopGrace,
// because their context does. It starts nothing, and may be called again, also when the kind has a new controller, which
// it leaves alone.
func (c *Controller) Stop() {
	if !c.stopping.CompareAndSwap(false, true) {
		<-c.stopped
		return
	}
	defer close(c.stopped)
	<-c.started
	c.kindWatch.Stop()
	c.awaitDrained(c.queue.Close())
	// The queue dropped the reconciles that would have released the watches of deleted instances, so they are released
	// here. A successor reconciles every object and watches again. It may start only now, also because it works on the
	// same objects.
	c.engine.Hub.ForgetKind(c.Kind.GroupKind())
	c.engine.mu.Lock()
	delete(c.engine.running, c.Kind.GroupKind())
	delete(c.engine.queues, c.queue)
	c.engine.mu.Unlock()
}

// It ends their context after stopGrace.
func (c *Controller) awaitDrained(drained <-chan struct{}) {
	defer c.cancel()
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case <-drained:
	case <-grace.C:
		c.cancel()
		<-drained
	}
}
