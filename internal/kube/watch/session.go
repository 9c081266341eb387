package watch

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
)

// errInterrupted ends a session that has to start over.
var errInterrupted = errors.New("interrupted")

// session is the informer of an actor for as long as its kind is served in one place. After
// it ended it can be run again, and then continues from its revision.
type session struct {
	actor     *actor
	resource  Resource
	reflector *cache.Reflector
}

func newSession(a *actor, r Resource) *session {
	s := &session{actor: a, resource: r}
	listWatch := withoutContext{requests{a.env.open(r, a.selection), s.requested}}
	s.reflector = cache.NewReflectorWithOptions(listWatch, &unstructured.Unstructured{}, sink{a}, cache.ReflectorOptions{
		Logger:          &a.env.Logger,
		Name:            "watch",
		TypeDescription: r.GVR.String(),
		// Only for a watch whose connection is refused: it continues from its
		// revision soon after the API server is back.
		Backoff: &wait.Backoff{Duration: firstRetry / 2, Factor: 2, Jitter: 0.5, Steps: 4, Cap: 2 * firstRetry},
	})
	return s
}

// run lists and watches until that fails, the context ends, or the actor is
// interrupted.
func (s *session) run(ctx context.Context) error {
	a := s.actor
	inner, cancel := context.WithCancel(logr.NewContext(ctx, a.env.Logger))
	defer cancel()
	if !a.interruptible(cancel, s.resource.GVR) {
		return errInterrupted
	}
	err := s.reflector.ListAndWatchWithContext(inner)
	a.interruptible(nil, s.resource.GVR)
	if ctx.Err() == nil && inner.Err() != nil {
		return errInterrupted
	}
	return err
}

// interruptible records how to interrupt a session that begins, or, with nil, that it
// ended. It returns false if the session must not begin.
func (a *actor) interruptible(interrupt context.CancelFunc, resource schema.GroupVersionResource) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.interrupt, a.resource = nil, resource
	a.progress.listed, a.progress.watching = false, false
	if !a.kindGone {
		a.interrupt = interrupt
	}
	return !a.kindGone
}

// requested records the outcome of a request.
func (s *session) requested(ctx context.Context, o outcome) {
	if o.err != nil && isExpired(o.err) {
		return
	}
	s.actor.updateProgress(func(p *progress) {
		if ctx.Err() != nil {
			return // the session is over; a reflector may leave a list running
		}
		if o.err != nil {
			p.failed(classify(s.actor.gvk, o.err), time.Now())
			return
		}
		p.watching = o.watching
		p.advanced()
	})
}

// sink adapts an actor's store to the reflector.
type sink struct{ *actor }

var (
	_ cache.TransformingStore      = sink{}
	_ cache.ReflectorBookmarkStore = sink{}
)

// compactObject is an object that the transformer has already made compact.
type compactObject struct{ unstructured.Unstructured }

// Transformer makes objects compact as they arrive, so that a large first list is never in
// memory in full size.
func (k sink) Transformer() cache.TransformFunc {
	return func(o any) (any, error) {
		if u, ok := o.(*unstructured.Unstructured); ok {
			return &compactObject{*k.compactor.compact(u)}, nil
		}
		return o, nil
	}
}

func (k sink) compacted(o any) (*unstructured.Unstructured, bool) {
	switch o := o.(type) {
	case *compactObject:
		return &o.Unstructured, true
	case *unstructured.Unstructured:
		return k.compactor.compact(o), true
	default:
		return nil, false
	}
}

// Add handles an event of the watch.
func (k sink) Add(o any) error { return k.Update(o) }

// Update handles an event of the watch.
func (k sink) Update(o any) error {
	if u, ok := k.compacted(o); ok {
		k.emit(k.store.observe(u), Subscriber{})
	}
	return nil
}

// Delete handles an event of the watch.
func (k sink) Delete(o any) error {
	if u, ok := o.(*unstructured.Unstructured); ok {
		k.emit(k.store.observeDeletion(u), Subscriber{})
	}
	return nil
}

// Bookmark records how far the watch has come.
func (k sink) Bookmark(revision string) error {
	k.store.bookmarked(parseRevision(revision))
	return nil
}

// Replace handles a complete list.
func (k sink) Replace(items []any, revision string) error {
	objects := make([]*unstructured.Unstructured, 0, len(items))
	for _, item := range items {
		if u, ok := k.compacted(item); ok {
			objects = append(objects, u)
		}
	}
	k.listed(objects, parseRevision(revision))
	return nil
}

// Resync is never called.
func (k sink) Resync() error { return nil }

// listed stores a complete list and routes the changes. Subscribers are notified of the
// first list once, about the kind, not for each object.
func (a *actor) listed(objects []*unstructured.Unstructured, revision uint64) {
	a.mu.Lock()
	first, refresh := !a.progress.complete, a.refresh
	a.refresh = false
	a.mu.Unlock()

	changes, retained := a.store.replace(objects, revision, time.Now())
	if retained {
		time.AfterFunc(provisionalTTL, a.expire)
	}
	if first {
		a.replay(changes)
	} else {
		a.emit(changes, Subscriber{})
	}
	a.updateProgress(func(p *progress) {
		p.listed = true
		p.advanced()
	})
	if refresh && !first {
		a.notify()
	}
}

// expire removes entries that a list lacked, unless the watch is broken and cannot have
// confirmed them.
func (a *actor) expire() {
	a.mu.Lock()
	healthy := a.progress.watching && a.progress.failure == nil
	a.mu.Unlock()
	if healthy {
		a.emit(a.store.expire(time.Now()), Subscriber{})
	}
}
