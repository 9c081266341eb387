// Package engine runs a controller for each served kind: it watches the kind,
// queues what changed, and hands it to workers that all kinds share.
package engine

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/watch"
)

// Reconciler makes one object true. It is called for one key at a time, and for
// different keys at once.
type Reconciler interface {
	Reconcile(ctx context.Context, key object.Key) outcome.Outcome
}

// Config is what an engine needs.
type Config struct {
	Hub *watch.Hub
	// Workers is how many objects are worked on side by side, of all kinds
	// together.
	Workers int
	// Timeout bounds one pass over one object.
	Timeout time.Duration
	Log     logr.Logger
	// Observe is told of each pass; optional.
	Observe func(kind schema.GroupVersionKind, took time.Duration, out outcome.Outcome)
}

// Engine runs controllers. It is safe for concurrent use.
type Engine struct {
	Config
	queue *queue

	mu sync.Mutex
	// running has a kind's controller from its start until its last pass is over.
	running map[schema.GroupKind]*Controller
}

// Controller is one kind being served. It has an identity of its own: stopping
// it can't hit a successor for the same kind.
type Controller struct {
	Kind       schema.GroupVersionKind
	engine     *Engine
	lane       *lane
	reconciler Reconciler
	stopping   atomic.Bool
	stopped    chan struct{}

	// served is closed once serving is there: a controller can be found, and
	// stopped, a moment before.
	served  chan struct{}
	serving *watch.Serving
}

// New returns an engine that does nothing before Run.
func New(c Config) *Engine {
	if c.Workers <= 0 {
		c.Workers = 1
	}
	if c.Timeout <= 0 {
		c.Timeout = time.Minute
	}
	return &Engine{Config: c, queue: newQueue(), running: map[schema.GroupKind]*Controller{}}
}

// Run works until the context ends, and returns when all passes have.
func (e *Engine) Run(ctx context.Context) error {
	var workers sync.WaitGroup
	for range e.Workers {
		workers.Go(func() { e.work(ctx) })
	}
	<-ctx.Done()
	e.queue.close()
	workers.Wait()
	return nil
}

// Start serves a kind with a reconciler, in place of whatever served it before:
// that is stopped first, as by Stop, so that the two never work on one object at
// once. The reconciler is asked for every object that there is, and must not
// itself start or stop its own kind.
func (e *Engine) Start(kind schema.GroupVersionKind, r Reconciler) *Controller {
	c := &Controller{Kind: kind, engine: e, reconciler: r, served: make(chan struct{}), stopped: make(chan struct{})}
	c.lane = e.queue.open(c)
	for previous := e.succeed(c); previous != nil; previous = e.succeed(c) {
		previous.Stop()
	}
	c.serving = e.Hub.Serve(kind, func(key object.Key, cause watch.Cause) {
		if key.Name != "" { // the kind's own state is no object's
			c.lane.add(key, cause.Priority)
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

// Enqueue wakes an object's controller. What nobody serves is nobody's to wake.
func (e *Engine) Enqueue(s watch.Subscriber, cause watch.Cause) {
	e.mu.Lock()
	c := e.running[s.GroupKind()]
	e.mu.Unlock()
	if c != nil {
		c.lane.add(s.Key, cause.Priority)
	}
}

// Wake asks for a pass over one object.
func (c *Controller) Wake(key object.Key, p watch.Priority) { c.lane.add(key, p) }

// State is the state of the kind's watch.
func (c *Controller) State() watch.State {
	<-c.served
	return c.serving.State()
}

// Depth counts the objects that wait for a pass.
func (c *Controller) Depth() int { return c.lane.depth() }

// Stop ends the serving of the kind. It returns once passes in flight are over,
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
	c.lane.close()
	// Only now may a successor start: it would work on the same objects.
	c.engine.mu.Lock()
	delete(c.engine.running, c.Kind.GroupKind())
	c.engine.mu.Unlock()
}

func (e *Engine) work(ctx context.Context) {
	for {
		l, key, ok := e.queue.get()
		if !ok {
			return
		}
		if ctx.Err() == nil {
			e.pass(ctx, l.of, key)
		}
		l.done(key)
	}
}

// pass runs one reconcile and turns its outcome into what comes next.
func (e *Engine) pass(running context.Context, c *Controller, key object.Key) {
	ctx, cancel := context.WithTimeout(running, e.Timeout)
	defer cancel()
	log := e.Log.WithValues("kind", key.Kind, "namespace", key.Namespace, "name", key.Name)
	ctx = logr.NewContext(ctx, log)
	began := time.Now()
	out := guarded(ctx, c.reconciler, key)
	if e.Observe != nil {
		e.Observe(c.Kind, time.Since(began), out)
	}
	if out.Err != nil {
		if running.Err() == nil {
			log.Error(out.Err, "reconcile failed; it is repeated with a growing delay")
		}
		c.lane.retry(key)
		return
	}
	c.lane.forget(key)
	if out.After > 0 {
		c.lane.addAfter(key, out.After, watch.Background)
	}
}

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
