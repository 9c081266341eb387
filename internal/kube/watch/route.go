package watch

import (
	"strconv"
	"sync"
	"time"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/tracing"
)

// Subscriber identifies an instance that is woken. It is comparable.
type Subscriber struct{ object.Key }

type listener struct {
	subscriber Subscriber
	enqueue    func(Subscriber, Cause)
}

func (l *listener) wake(c Cause) { l.enqueue(l.subscriber, c) }

// router finds the listeners of a kind's objects, for all its actors: two actors may hold
// an object, and a subscriber that reads it from one must be woken when the other catches
// up.
type router struct {
	mu    sync.RWMutex
	index *index[*listener]
}

func (r *router) add(l *listener, to route) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.index.add(l, to)
}

func (r *router) remove(l *listener, to route) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.index.remove(l, to)
}

func (r *router) listenersOf(t transition) []*listener {
	var out uniqueSet[*listener]
	r.mu.RLock()
	defer r.mu.RUnlock()
	if t.old != nil {
		r.index.find(identityOf(t.old), &out)
	}
	if t.new != nil && t.new != t.old {
		r.index.find(identityOf(t.new), &out)
	}
	return out.list
}

// noWriter stands for a change that is not the answer to a write of a subscriber.
var noWriter Subscriber

// It leaves out the writer, which has the answer already or is about to get it.
func (a *actor) emit(changes []transition, writer Subscriber) {
	if len(changes) == 0 {
		return
	}
	a.addEvents(len(changes))
	now, kindWatches := time.Now(), a.kindWatches()
	for _, t := range changes {
		cause := t.cause(now)
		listeners := a.router.listenersOf(t)
		if a.env.Tracer != nil && len(listeners)+len(kindWatches) > 0 {
			cause.Trace = a.env.Tracer.Event(t.traced(cause))
		}
		for _, l := range listeners {
			if l.subscriber != writer {
				l.wake(cause)
			}
		}
		// The subscriber of a KindWatch's event is the object itself: its reconcile may have written it.
		if writer != (Subscriber{cause.Object}) {
			for _, w := range kindWatches {
				w.report(cause)
			}
		}
	}
}

func (t transition) traced(c Cause) tracing.Change {
	change := tracing.Change{Object: c.Object, UID: uidOf(t.object()), Change: string(c.Change), At: c.ObservedAt}
	if t.new != nil {
		change.Revision = tracedRevision(revisionOf(t.new))
	}
	return change
}

func tracedRevision(revision uint64) string { return strconv.FormatUint(revision, 10) }

// replay reports objects that existed before the watch began, to KindWatches alone: leases
// are notified of the kind once.
func (a *actor) replay(changes []transition) {
	a.addEvents(len(changes))
	now, kindWatches := time.Now(), a.kindWatches()
	for _, t := range changes {
		t.replay = true
		cause := t.cause(now)
		for _, w := range kindWatches {
			w.report(cause)
		}
	}
}

func (a *actor) notify() {
	var all uniqueSet[*listener]
	a.mu.Lock()
	all.addAll(&a.subscribers)
	a.mu.Unlock()
	about := object.Key{Group: a.gvk.Group, Kind: a.gvk.Kind}
	cause := Cause{Object: about, Change: KindState, Priority: Normal, ObservedAt: time.Now()}
	for _, l := range all.list {
		l.wake(cause)
	}
	for _, w := range a.kindWatches() {
		w.report(cause)
	}
}

func (a *actor) kindWatches() []*KindWatch {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.watchers
}

func (a *actor) eventCount() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.events
}

func (a *actor) addEvents(events int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events += uint64(events)
}
