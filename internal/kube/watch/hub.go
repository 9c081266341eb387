package watch

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/internal/telemetry/tracing"
)

// Config configures a hub.
type Config struct {
	Client dynamic.Interface

	// Resolve returns where a kind is served. For a kind that does not exist its error is,
	// or wraps, an *UnavailableError or a no-match error. The actor of the kind calls it
	// each time it starts over, so it should be quick for known kinds, and up to date for
	// kinds that have come or gone.
	Resolve func(ctx context.Context, kind schema.GroupVersionKind) (Resource, error)

	// Enqueue wakes a subscriber. It is called from many goroutines, sometimes several
	// times for one change, and must not block: reflectors wait for it. The hub holds no
	// lock during the call.
	Enqueue func(Subscriber, Cause)

	// Wrote says that a subscriber has made a write. Its event may come before the answer or after it. It may be nil.
	Wrote func(Subscriber, Write)

	// ManagedLabel is the label that Managed selects by. The value of OwnerLabel groups the
	// children of one owner; it defaults to ManagedLabel.
	ManagedLabel string
	OwnerLabel   string

	// FieldManager is the manager whose managed fields are kept. All other entries are dropped, except for the entries
	// that IsForeignEntry selects, which tell the owner of an object. IsForeignEntry may be nil.
	FieldManager   string
	IsForeignEntry func(manager, operation, subresource string) bool

	// KeepLastApplied are kinds. Their objects keep kubectl's last-applied annotation; objects of other kinds lose it.
	KeepLastApplied []schema.GroupVersionKind

	// KeepIfDeletedWith selects the finalizers for DeletedDespiteFinalizers: the last state of a
	// deleted object with such a finalizer is kept until ForgetDeletedDespiteFinalizers. It
	// may be nil.
	KeepIfDeletedWith func(finalizer string) bool

	// PermissionKinds are the kinds of objects that grant permissions. They are watched while a watch is forbidden, and
	// a change of one makes the forbidden watch retry at once. They may be forbidden themselves; then a forbidden watch
	// is retried with backoff alone.
	PermissionKinds []schema.GroupVersionKind

	// ImpersonatedUser is the user that the client impersonates, if any. PermissionsHub then watches the
	// PermissionKinds, with this program's own permissions: an impersonated user might not be allowed to read roles.
	ImpersonatedUser string
	PermissionsHub   *Hub

	// Quota bounds the watches; nil for no limit. Several hubs may share one.
	Quota *Quota

	// Tracer makes spans of events; nil for none. Several hubs share one.
	Tracer *tracing.Tracer

	// Grace is how long a watch outlives its last subscriber; 30 seconds by default.
	Grace time.Duration

	Logger logr.Logger
}

// Hub shares watches of kinds between subscribers. All its methods are safe for concurrent
// use, return at once, and hold the hub's lock for a few map operations only: nothing waits
// for a list, a watch or a listener.
type Hub struct {
	env               environment
	permissionWatcher permissionWatcher

	mu      sync.RWMutex
	kinds   map[schema.GroupVersionKind]*kind
	subs    map[Subscriber]*subscription
	ctx     context.Context // of Run; the parent of the actors' contexts
	actors  sync.WaitGroup
	stopped bool
}

// An actor uses only these of its hub.
type environment struct {
	Config
	open func(Resource, Selection) source
	// forbiddenChanged is called with 1 for each watch that becomes forbidden, and with -1
	// for each that no longer is.
	forbiddenChanged func(kind schema.GroupVersionKind, by int)
}

// New returns a hub, which watches once Run is called.
func New(c Config) *Hub {
	if c.Grace == 0 {
		c.Grace = 30 * time.Second
	}
	if c.OwnerLabel == "" {
		c.OwnerLabel = c.ManagedLabel
	}
	h := &Hub{
		env:   environment{Config: c, open: func(r Resource, s Selection) source { return remoteSource(c.Client, r, s, c.ManagedLabel) }},
		kinds: map[schema.GroupVersionKind]*kind{},
		subs:  map[Subscriber]*subscription{},
	}
	h.permissionWatcher.hub = h
	h.env.forbiddenChanged = h.permissionWatcher.addForbidden
	return h
}

// Run watches until the context ends, also what was requested before it was called. It
// returns after all watches have ended. The hub cannot be run again, and requests have no
// effect from then on.
func (h *Hub) Run(ctx context.Context) error {
	h.mu.Lock()
	h.ctx = ctx
	for _, k := range h.kinds {
		for a := range k.actors.each() {
			h.launch(a)
		}
	}
	h.mu.Unlock()
	<-ctx.Done()
	h.mu.Lock()
	h.stopped = true
	var all []*actor
	for _, k := range h.kinds {
		for a := range k.actors.each() {
			a.stopGrace()
			all = append(all, a)
		}
	}
	h.mu.Unlock()
	h.env.Quota.uncount(all...)
	h.env.Quota.forgetAll(func(w waiter) bool { return w.hub == h })
	h.actors.Wait()
	return nil
}

// It starts the goroutine at most once, and not before Run. The lock is held.
func (h *Hub) launch(a *actor) {
	if a.cancel != nil || h.ctx == nil || h.stopped {
		return
	}
	ctx, cancel := context.WithCancel(h.ctx)
	a.cancel = cancel
	h.actors.Go(func() {
		defer cancel()
		a.run(ctx)
	})
}
