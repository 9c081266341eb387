package watch

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Config is what a hub needs of its surroundings.
type Config struct {
	Client dynamic.Interface

	// Resolve says where a kind is served. For a kind that doesn't exist its
	// error is, or wraps, an *UnavailableError or a no-match error. It is called
	// by the kind's actor each time it starts over, so it should be quick for
	// kinds that are known, and fresh for kinds that have come or gone.
	Resolve func(ctx context.Context, kind schema.GroupVersionKind) (Resource, error)

	// Enqueue wakes a subscriber. It is called from many goroutines, sometimes
	// several times for one change, and must not block: informers wait for it.
	// No lock of the hub is held during the call.
	Enqueue func(Subscriber, Cause)

	// Managed is the label that Managed selects by, OwnerLabel the one whose
	// value groups the children of one owner. OwnerLabel defaults to Managed.
	Managed    string
	OwnerLabel string

	// FieldManager is whose managed fields are kept; all others are dropped, but for the
	// entries that Former names, which this program takes over. It may be nil.
	FieldManager string
	Former       func(manager, operation, subresource string) bool

	// Annotated are kinds all of whose objects' annotations are kept. From others
	// kubectl's copy of the object is dropped.
	Annotated []schema.GroupVersionKind

	// Rights are kinds whose objects say what we may do. While a watch is
	// forbidden these are watched, and a change of one makes it try again at once.
	// They may be forbidden themselves; what is forbidden is then tried again with
	// back-off alone.
	Rights []schema.GroupVersionKind

	// As names by whose rights it watches, other than this program's. Teller is the
	// hub that the Rights are watched by then, with this program's rights: whoever may
	// little may not read who may what.
	As     string
	Teller *Hub

	// Grace is for how long a watch outlives its last subscriber, 30 seconds by
	// default.
	Grace time.Duration

	Logger logr.Logger
}

// Hub shares watches of kinds between subscribers. All its methods are safe for
// concurrent use, return at once, and take the hub's lock for the time of a few
// map operations only: nothing waits for a list, a watch or a listener.
type Hub struct {
	world  world
	rights rights

	mu      sync.RWMutex
	kinds   map[schema.GroupVersionKind]*kind
	subs    map[Subscriber]*subscription
	ctx     context.Context // the life that Run gives to actors, which others start
	actors  sync.WaitGroup
	stopped bool
}

// world is what an actor sees of its surroundings.
type world struct {
	Config
	open func(Resource, Selection) source
	// barred is told of each watch that becomes forbidden, and of each that no
	// longer is.
	barred func(kind schema.GroupVersionKind, by int)
}

// New returns a hub, which watches once it is Run.
func New(c Config) *Hub {
	if c.Grace == 0 {
		c.Grace = 30 * time.Second
	}
	if c.OwnerLabel == "" {
		c.OwnerLabel = c.Managed
	}
	h := &Hub{
		world: world{Config: c, open: func(r Resource, s Selection) source { return remote(c.Client, r, s, c.Managed) }},
		kinds: map[schema.GroupVersionKind]*kind{},
		subs:  map[Subscriber]*subscription{},
	}
	h.rights.hub = h
	h.world.barred = h.rights.barred
	return h
}

// Run watches what is wanted, also what was before it was called, until the
// context ends. It returns after all watches have ended; the hub can't be run
// again, and wanting from it is without effect from then on.
func (h *Hub) Run(ctx context.Context) error {
	h.mu.Lock()
	h.ctx = ctx
	for _, k := range h.kinds {
		for _, a := range k.actors {
			h.launch(a)
		}
	}
	h.mu.Unlock()
	<-ctx.Done()
	h.mu.Lock()
	h.stopped = true
	for _, k := range h.kinds {
		for _, a := range k.actors {
			a.stopGrace()
		}
	}
	h.mu.Unlock()
	h.actors.Wait()
	return nil
}

// launch starts the actor's goroutine, once, and once there is a life for it to
// live in. The lock is held.
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
