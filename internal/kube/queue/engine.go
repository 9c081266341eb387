// Package queue runs a controller for each served kind: it watches the kind, and enqueues the keys of objects that have
// changed. Each kind has a queue of its own, like client-go's, but with priorities and with turns between namespaces.
// See docs/design/0006-queues-and-fairness.md.
//
// Read engine.go and controller.go first, then queue.go.
package queue

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
	"github.com/espalier-dev/espalier/internal/telemetry/tracing"
)

// Reconciler reconciles objects of one kind. It may be called concurrently for different
// keys, and is not called concurrently for one key.
type Reconciler interface {
	Reconcile(ctx context.Context, key object.Key) reconcile.Result
}

// Config is what an engine needs.
type Config struct {
	Hub *watch.Hub
	// Workers is the maximum number of concurrent reconciles of each kind, without those that wait for external systems.
	// If there are two or more, one namespace cannot occupy all.
	Workers int
	// Timeout bounds one reconcile of one object, and Timeouts those of kinds with a bound of their own.
	Timeout  time.Duration
	Timeouts map[schema.GroupKind]time.Duration
	Log      logr.Logger
	// Observe is called after each reconcile; optional.
	Observe func(reconcile.Run)
	// Context returns the context of a reconcile of a kind, for an object that is queued with those of a namespace; optional.
	Context func(ctx context.Context, kind schema.GroupVersionKind, namespace string) context.Context
	// Tracer makes spans of reconciles; nil for none.
	Tracer *tracing.Tracer
	// OnBehalfOf returns the namespace that a cluster-scoped object is reconciled for, with whose objects
	// it is queued; empty if there is none. It is optional, is called concurrently, and must not block.
	OnBehalfOf func(schema.GroupVersionKind, object.Key) string
}

// Engine runs controllers. It is safe for concurrent use.
type Engine struct {
	Config

	// ctx is the context of all reconciles. It exists before Run, which ends it:
	// controllers may be started earlier, and each derives its own.
	ctx    context.Context
	cancel context.CancelFunc

	reconciles sync.WaitGroup

	mu sync.Mutex
	// running has a kind's controller from its start until its last reconcile has ended, and queues all queues in which
	// something is reconciled or waits: also that of a successor.
	running map[schema.GroupKind]*Controller
	queues  map[*kindQueue]struct{}
	// runs says that Run was called.
	runs bool
}

// New returns an engine that does nothing before Run.
func New(c Config) *Engine {
	if c.Workers <= 0 {
		c.Workers = 1
	}
	if c.Timeout <= 0 {
		c.Timeout = time.Minute
	}
	e := &Engine{Config: c, running: map[schema.GroupKind]*Controller{}, queues: map[*kindQueue]struct{}{}}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

// Run works until the context ends, and returns when all reconciles have ended.
func (e *Engine) Run(ctx context.Context) error {
	e.mu.Lock()
	e.runs = true
	for k := range e.queues {
		k.Run(e.start)
	}
	e.mu.Unlock()
	<-ctx.Done()
	e.cancel()
	e.shutDown()
	e.reconciles.Wait()
	return nil
}

// shutDown closes all queues. Those that are opened later have nothing to do: their context has ended.
func (e *Engine) shutDown() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.runs = false
	for k := range e.queues {
		k.Close()
	}
}

// open opens the queue of a controller.
func (e *Engine) open(c *Controller) *kindQueue {
	k := newKindQueue(c, e.Workers)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queues[k] = struct{}{}
	if e.runs {
		k.Run(e.start)
	}
	return k
}

// start reconciles a key in the background.
func (e *Engine) start(w work) {
	e.reconciles.Go(func() {
		defer w.Done()
		if w.queue.controller.ctx.Err() == nil {
			e.reconcile(w)
		}
	})
}

// Idle reports whether no object waits to be reconciled, is being reconciled, or is due to be reconciled within the given
// time.
func (e *Engine) Idle(within time.Duration) bool {
	until := time.Now().Add(within)
	for _, k := range e.all() {
		if !k.isIdle(until) {
			return false
		}
	}
	return true
}

// all returns the queues, in no order.
func (e *Engine) all() []*kindQueue {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Keys(e.queues))
}

// Wrote says that the reconcile of an object has made a write: its event is no reason for another reconcile.
func (e *Engine) Wrote(s watch.Subscriber, w watch.Write) {
	if c := e.controllerOf(s); c != nil {
		c.queue.Wrote(s.Key, w)
	}
}

// Enqueue wakes an object's controller. An object of a kind without a controller is ignored.
func (e *Engine) Enqueue(s watch.Subscriber, cause watch.Cause) {
	if c := e.controllerOf(s); c != nil {
		c.enqueue(s.Key, cause)
	}
}

// controllerOf returns the controller of an object's kind; nil if there is none.
func (e *Engine) controllerOf(s watch.Subscriber) *Controller {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.running[s.GroupKind()]
}
