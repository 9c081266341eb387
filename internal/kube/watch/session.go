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

// session is the reflector of an actor, for one resource. When a run of it has ended, it can
// be run again, and continues from the last revision.
type session struct {
	actor     *actor
	resource  Resource
	reflector *cache.Reflector
}

func newSession(a *actor, r Resource) *session {
	s := &session{actor: a, resource: r}
	requests := listerWatcher{reportingSource{a.env.open(r, a.selection), &a.bounds, s.recordOutcome}}
	log := s.log()
	s.reflector = cache.NewReflectorWithOptions(requests, &unstructured.Unstructured{}, sink{a}, cache.ReflectorOptions{
		Logger:          &log,
		Name:            "watch",
		TypeDescription: r.GVR.String(),
		// Only for a watch that is refused a connection: it continues from its revision soon after the API server is
		// back.
		Backoff: &wait.Backoff{Duration: firstRetry / 2, Factor: 2, Jitter: 0.5, Steps: 4, Cap: 2 * firstRetry},
	})
	return s
}

// log is the logger of the reflector, which reports each watch that ends with an error. The hub resumes it, and reports a
// change of the state: when a connection ends, all its watches do.
func (s *session) log() logr.Logger { return s.actor.env.Logger.V(1) }

// It lists and watches until that fails, the context ends, or the actor is interrupted.
func (s *session) run(ctx context.Context) error {
	a := s.actor
	inner, cancel := context.WithCancel(logr.NewContext(ctx, s.log()))
	defer cancel()
	if !a.setInterrupt(cancel, s.resource.GVR) {
		return errInterrupted
	}
	a.bounds.Complete()
	err := s.reflector.ListAndWatchWithContext(inner)
	a.setInterrupt(nil, s.resource.GVR)
	if ctx.Err() == nil && inner.Err() != nil {
		return errInterrupted
	}
	return err
}

// setInterrupt sets the function that interrupts the session that begins now, or nil when it
// has ended. It returns false if the session must not begin: the kind is gone.
func (a *actor) setInterrupt(interrupt context.CancelFunc, resource schema.GroupVersionResource) (mayBegin bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.interrupt, a.resource = nil, resource
	a.progress.listed, a.progress.watching = false, false
	if !a.kindGone {
		a.interrupt = interrupt
	}
	return !a.kindGone
}

func (s *session) recordOutcome(ctx context.Context, o outcome) {
	s.actor.updateProgress(func(p *progress) {
		if ctx.Err() != nil {
			return // the session is over; a reflector may leave a list running
		}
		if o.err != nil && isExpired(o.err) && !p.expired {
			p.expired = true // the next list corrects it
			return
		}
		if o.err != nil {
			p.recordFailure(classify(s.actor.gvk, o.err), time.Now())
			return
		}
		p.watching = o.watching
		p.recordSuccess()
	})
}

// sink is the store that the reflector fills: it adapts the actor's store to the reflector.
type sink struct{ *actor }

var (
	_ cache.TransformingStore      = sink{}
	_ cache.ReflectorBookmarkStore = sink{}
)

type compactObject struct{ unstructured.Unstructured }

// Transformer makes objects compact as they arrive, so a large first list is never in memory in full size.
func (s sink) Transformer() cache.TransformFunc {
	return func(o any) (any, error) {
		if u, ok := o.(*unstructured.Unstructured); ok {
			s.recordManager(u)
			return &compactObject{*s.compactor.compact(u)}, nil
		}
		return o, nil
	}
}

// recordManager records who wrote an object, before compact drops that, for the span of the event.
func (s sink) recordManager(o *unstructured.Unstructured) {
	if t := s.env.Tracer; t != nil {
		t.RecordManager(uidOf(o), tracedRevision(revisionOf(o)), lastManager(o))
	}
}

// It is empty if the last writer is unclear, because the times of managed fields have seconds.
func lastManager(o *unstructured.Unstructured) string {
	entries, _ := metadataOf(o)["managedFields"].([]any)
	manager, last := "", ""
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		by, _ := entry["manager"].(string)
		at, _ := entry["time"].(string)
		switch {
		case at > last:
			manager, last = by, at
		case at == last && by != manager:
			manager = ""
		}
	}
	return manager
}

func (s sink) compacted(o any) (*unstructured.Unstructured, bool) {
	switch o := o.(type) {
	case *compactObject:
		return &o.Unstructured, true
	case *unstructured.Unstructured:
		return s.compactor.compact(o), true
	default:
		return nil, false
	}
}

// Add handles an event of the watch.
func (s sink) Add(o any) error { return s.Update(o) }

// Update handles an event of the watch.
func (s sink) Update(o any) error {
	if u, ok := s.compacted(o); ok {
		s.emit(s.store.observe(u), noWriter)
	}
	return nil
}

// Delete handles an event of the watch.
func (s sink) Delete(o any) error {
	if u, ok := o.(*unstructured.Unstructured); ok {
		s.emit(s.store.observeDeletion(u), noWriter)
	}
	return nil
}

// Bookmark records the revision of a bookmark event.
func (s sink) Bookmark(revision string) error {
	s.store.recordBookmark(parseRevision(revision))
	return nil
}

// Replace handles the complete list that precedes a watch.
func (s sink) Replace(items []any, revision string) error {
	objects := make([]*unstructured.Unstructured, 0, len(items))
	for _, item := range items {
		if u, ok := s.compacted(item); ok {
			objects = append(objects, u)
		}
	}
	s.bounds.Complete()
	s.storeList(objects, parseRevision(revision))
	return nil
}

// Resync implements cache.Store. It is never called, because the reflector has no resync period.
func (s sink) Resync() error { return nil }

// Subscribers are notified of the first list once, about the kind, not for each object.
func (a *actor) storeList(objects []*unstructured.Unstructured, revision uint64) {
	a.mu.Lock()
	first, refresh := !a.progress.complete, a.refresh
	a.refresh = false
	a.mu.Unlock()

	changes, keptMissing := a.store.replace(objects, revision, time.Now())
	if keptMissing {
		time.AfterFunc(provisionalTTL, a.expire)
	}
	if first {
		a.replay(changes)
	} else {
		a.emit(changes, noWriter)
	}
	a.updateProgress(func(p *progress) {
		p.listed = true
		p.recordSuccess()
	})
	if refresh && !first { // after the first, all subscribers know
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
		a.emit(a.store.expire(time.Now()), noWriter)
	}
}
