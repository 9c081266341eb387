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

// errInterrupted ends a session that the actor was told to begin anew.
var errInterrupted = errors.New("interrupted")

// session is the informer of an actor for as long as its kind is served in one
// place. It may be run again after it ended, and then goes on from where it was.
type session struct {
	actor     *actor
	resource  Resource
	reflector *cache.Reflector
}

func newSession(a *actor, r Resource) *session {
	s := &session{actor: a, resource: r}
	asked := contextless{requests{a.world.open(r, a.selection), s.requested}}
	s.reflector = cache.NewReflectorWithOptions(asked, &unstructured.Unstructured{}, sink{a}, cache.ReflectorOptions{
		Logger:          &a.world.Logger,
		Name:            "watch",
		TypeDescription: r.GVR.String(),
		// Only for a watch whose connection is refused: it goes on from its
		// revision soon after the API server is back.
		Backoff: &wait.Backoff{Duration: firstRetry / 2, Factor: 2, Jitter: 0.5, Steps: 4, Cap: 2 * firstRetry},
	})
	return s
}

// run lists and watches until that fails, the context ends, or the actor is
// interrupted.
func (s *session) run(ctx context.Context) error {
	a := s.actor
	inner, cancel := context.WithCancel(logr.NewContext(ctx, a.world.Logger))
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

// interruptible notes how a session that begins is interrupted, or that it
// ended. It returns false if it shouldn't begin.
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

// requested notes how a request went.
func (s *session) requested(ctx context.Context, o outcome) {
	if o.err != nil && outdated(o.err) {
		return
	}
	s.actor.advance(func(p *progress) {
		if ctx.Err() != nil {
			return // a reflector may leave a list behind, whose end is of no interest
		}
		if o.err != nil {
			p.failed(classify(s.actor.gvk, o.err), time.Now())
			return
		}
		p.watching = o.watching
		p.advanced()
	})
}

// sink is an actor's store as the reflector sees it.
type sink struct{ *actor }

var (
	_ cache.TransformingStore      = sink{}
	_ cache.ReflectorBookmarkStore = sink{}
)

// arrived is an object on its way through the reflector, made compact already.
type arrived struct{ unstructured.Unstructured }

// Transformer makes objects compact as they arrive, so that a large first list
// is never held in full size.
func (k sink) Transformer() cache.TransformFunc {
	return func(o any) (any, error) {
		if u, ok := o.(*unstructured.Unstructured); ok {
			return &arrived{*k.compactor.compact(u)}, nil
		}
		return o, nil
	}
}

func (k sink) compacted(o any) (*unstructured.Unstructured, bool) {
	switch o := o.(type) {
	case *arrived:
		return &o.Unstructured, true
	case *unstructured.Unstructured:
		return k.compactor.compact(o), true
	default:
		return nil, false
	}
}

// Add takes an event of the watch.
func (k sink) Add(o any) error { return k.Update(o) }

// Update takes an event of the watch.
func (k sink) Update(o any) error {
	if u, ok := k.compacted(o); ok {
		k.emit(k.store.saw(u), Subscriber{})
	}
	return nil
}

// Delete takes an event of the watch.
func (k sink) Delete(o any) error {
	if u, ok := o.(*unstructured.Unstructured); ok {
		k.emit(k.store.sawGone(u), Subscriber{})
	}
	return nil
}

// Bookmark notes how far the watch is.
func (k sink) Bookmark(revision string) error {
	k.store.bookmarked(parseRevision(revision))
	return nil
}

// Replace takes a complete list.
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

// Resync is never asked for.
func (k sink) Resync() error { return nil }

// listed takes a complete list and tells what is new in it. The first list is
// news of the kind, not of each object.
func (a *actor) listed(objects []*unstructured.Unstructured, revision uint64) {
	a.mu.Lock()
	first, refresh := !a.progress.complete, a.refresh
	a.refresh = false
	a.mu.Unlock()

	changes, spared := a.store.listed(objects, revision, time.Now())
	if spared {
		time.AfterFunc(provisional, a.expire)
	}
	if first {
		a.replay(changes)
	} else {
		a.emit(changes, Subscriber{})
	}
	a.advance(func(p *progress) {
		p.listed = true
		p.advanced()
	})
	if refresh && !first {
		a.tell()
	}
}

// expire drops what a list lacked, unless the watch is too unwell to know.
func (a *actor) expire() {
	a.mu.Lock()
	well := a.progress.watching && a.progress.failure == nil
	a.mu.Unlock()
	if well {
		a.emit(a.store.expire(time.Now()), Subscriber{})
	}
}
