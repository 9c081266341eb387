package queue

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube/fence"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/reconcile"
)

// Ownership says which objects this process reconciles, if it is one of several replicas. Its methods are
// called concurrently and must not block.
type Ownership interface {
	// Owns reports whether this process reconciles an object now.
	Owns(object.Key) bool
	// Begin begins a reconcile: the context that it returns ends with the ownership, and the function is to
	// be called when the reconcile has ended. It is nil if another process reconciles the object.
	Begin(context.Context, object.Key) (context.Context, func())
}

// Follower is implemented by reconcilers that keep state of each object in every replica: the graph of a
// definition, say. They are called for objects that another process reconciles, too, with a context that
// refuses writes. Such a reconcile goes as far as it can without them; the owner's writes are events that
// continue it.
type Follower interface {
	Reconciler
	// Follows reports whether the reconciler is called for all objects. It does not change.
	Follows() bool
}

// Disowner is implemented by reconcilers that remember something of each object. Of others, the watches for the
// object are released.
type Disowner interface {
	// Disown forgets an object that another process reconciles now, and releases its watches. It is not called
	// while the object is reconciled.
	Disown(object.Key)
}

// follows reports whether a controller's reconciler is called for all objects.
func (c *Controller) follows() bool {
	f, ok := c.reconciler.(Follower)
	return ok && f.Follows()
}

// concerns reports whether an object is to be reconciled here.
func (c *Controller) concerns(key object.Key) bool {
	owners := c.engine.Ownership
	return owners == nil || owners.Owns(key) || c.follows()
}

// Moved enqueues the objects for which moved is true, of all kinds: they are reconciled by this process now,
// or by another one. Of kinds whose reconciler follows, it enqueues all.
func (e *Engine) Moved(moved func(object.Key) bool) {
	e.mu.Lock()
	running := make([]*Controller, 0, len(e.running))
	for _, c := range e.running {
		running = append(running, c)
	}
	e.mu.Unlock()
	for _, c := range running {
		for _, key := range e.Hub.Keys(c.Kind) {
			if c.follows() || moved(key) {
				c.add(key, watch.Cause{Priority: watch.Background})
			}
		}
	}
}

// Objects returns the cached objects of a served kind that this process reconciles, in no order: not those of other replicas.
func (e *Engine) Objects(kind schema.GroupVersionKind) (out []*unstructured.Unstructured) {
	for _, key := range e.Hub.Keys(kind) {
		if e.Ownership != nil && !e.Ownership.Owns(key) {
			continue
		}
		if o, cached := e.Hub.GetCached(kind, key.Namespace, key.Name); cached {
			out = append(out, o)
		}
	}
	return out
}

// run calls the reconciler for an object of this process, or for any object if it follows. Otherwise it
// forgets the object.
func (c *Controller) run(ctx context.Context, key object.Key) reconcile.Result {
	owners := c.engine.Ownership
	if owners == nil {
		return recoverPanics(ctx, c.reconciler, key)
	}
	owned, end := owners.Begin(ctx, key)
	switch {
	case end != nil:
		defer end()
		if known, err := c.catchUp(owned, key); err != nil {
			return reconcile.Fail(err)
		} else if !known {
			return reconcile.Done()
		}
	case c.follows():
		owned = fence.ReadOnly(ctx)
	default:
		c.disown(key)
		return reconcile.Done()
	}
	out := recoverPanics(owned, c.reconciler, key)
	if _, cached := c.engine.Hub.GetCached(c.Kind, key.Namespace, key.Name); !cached {
		c.tenures.forget(key)
	}
	if errors.Is(out.Err, fence.ErrNotOwner) || end != nil && !fence.MayWrite(owned) {
		return reconcile.Done() // the owner writes, and its event follows
	}
	return out
}

// disown forgets an object that another process reconciles.
func (c *Controller) disown(key object.Key) {
	c.tenures.forget(key)
	if d, ok := c.reconciler.(Disowner); ok {
		d.Disown(key)
		return
	}
	c.engine.Hub.Forget(watch.Subscriber{Key: key})
}

// catchUp reads an object from the API server when it is reconciled first after it was taken over from another
// replica, whose last writes the cache may lack. It need not be read if it was written after the takeover, as each
// new one is: the other replica wrote nothing any more. Known is false if the object is gone, and the event of that
// is on its way.
func (c *Controller) catchUp(ctx context.Context, key object.Key) (known bool, err error) {
	tenure := fence.Of(ctx)
	if tenure == nil || c.tenures.epochOf(key) == tenure.Epoch {
		return true, nil
	}
	c.disown(key) // what is remembered is of a former tenure
	o, cached := c.engine.Hub.GetCached(c.Kind, key.Namespace, key.Name)
	if began := c.engine.began.Load(); cached && began != nil && tenure.Taken.After(*began) && !c.takeover(ctx, tenure).Precedes(o) {
		if found, err := c.engine.Hub.Refresh(ctx, c.Kind, key.Namespace, key.Name); err != nil || !found {
			return false, err
		}
	}
	c.tenures.set(key, tenure.Epoch)
	return true, nil
}

// takeover returns a revision of the kind from after a takeover: what has a later one was written afterwards. The API
// server is asked once for each takeover. If it does not say, the result precedes nothing.
func (c *Controller) takeover(ctx context.Context, tenure *fence.Tenure) watch.Revision {
	if last := c.tenures.last.Load(); last.covers(tenure) {
		return last.revision
	}
	answer := c.tenures.asking.DoChan(strconv.FormatInt(tenure.Epoch, 10), func() (any, error) {
		if last := c.tenures.last.Load(); last.covers(tenure) { // another answer came just before this call began
			return last.revision, nil
		}
		revision, err := c.engine.Hub.Revision(ctx, c.Kind)
		if err == nil {
			c.tenures.last.Store(&takeover{tenure.Epoch, revision})
		}
		return revision, err
	})
	select {
	case a := <-answer:
		revision, _ := a.Val.(watch.Revision)
		return revision
	case <-ctx.Done():
		return 0
	}
}

// takeover is a revision of a kind from after the takeover of an epoch.
type takeover struct {
	epoch    int64
	revision watch.Revision
}

// covers says whether the takeover is that of a tenure, or a later one; nil is none.
func (t *takeover) covers(tenure *fence.Tenure) bool { return t != nil && t.epoch >= tenure.Epoch }

// tenures has the epoch in which each object was reconciled last. It is safe for concurrent use.
type tenures struct {
	last   atomic.Pointer[takeover]
	asking singleflight.Group

	mu    sync.Mutex
	byKey map[object.Key]int64
}

func (t *tenures) epochOf(key object.Key) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byKey[key]
}

func (t *tenures) set(key object.Key, epoch int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byKey == nil {
		t.byKey = map[object.Key]int64{}
	}
	t.byKey[key] = epoch
}

func (t *tenures) forget(key object.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byKey, key)
}
