// Package queue runs a controller for each served kind: it watches the kind, and enqueues the keys of objects that have
// changed. All kinds share the workers. The work queue is like client-go's, with priorities, and with round robin between
// kinds and between the namespaces of a kind.
//
// Read engine.go and controller.go first, and fairness.go for the order of keys.
package queue

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/reconcile"
	"github.com/espalier-dev/espalier/internal/tracing"
)

// Reconciler reconciles objects of one kind. It may be called concurrently for different
// keys, and is not called concurrently for one key.
type Reconciler interface {
	Reconcile(ctx context.Context, key object.Key) reconcile.Result
}

// Config is what an engine needs.
type Config struct {
	Hub *watch.Hub
	// Workers is the maximum number of concurrent reconciles, of all kinds together, without
	// those that wait for external systems. If there are two or more, one kind cannot occupy
	// all: some are reserved for kinds without a reconcile in flight.
	Workers int
	// Timeout bounds one reconcile of one object.
	Timeout time.Duration
	Log     logr.Logger
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
	queue *workQueue

	// ctx is the context of all reconciles. It exists before Run, which ends it:
	// controllers may be started earlier, and each derives its own.
	ctx    context.Context
	cancel context.CancelFunc

	workers sync.WaitGroup

	mu sync.Mutex
	// running has a kind's controller from its start until its last reconcile has ended.
	running map[schema.GroupKind]*Controller
}

// New returns an engine that does nothing before Run.
func New(c Config) *Engine {
	if c.Workers <= 0 {
		c.Workers = 1
	}
	if c.Timeout <= 0 {
		c.Timeout = time.Minute
	}
	e := &Engine{Config: c, queue: newWorkQueue(c.Workers), running: map[schema.GroupKind]*Controller{}}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

// Run works until the context ends, and returns when all reconciles have ended.
func (e *Engine) Run(ctx context.Context) error {
	for range e.Workers {
		e.workers.Go(e.worker)
	}
	<-ctx.Done()
	e.cancel()
	e.queue.ShutDown()
	e.workers.Wait()
	return nil
}

// Enqueue wakes an object's controller. An object of a kind without a controller is ignored.
func (e *Engine) Enqueue(s watch.Subscriber, cause watch.Cause) {
	e.mu.Lock()
	c := e.running[s.GroupKind()]
	e.mu.Unlock()
	if c != nil {
		c.enqueue(s.Key, cause)
	}
}
