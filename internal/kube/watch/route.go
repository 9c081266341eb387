package watch

import (
	"sync"
	"time"

	"github.com/espalier-dev/espalier/internal/object"
)

// Subscriber is who is woken: an instance. It is comparable.
type Subscriber struct{ object.Key }

// listener is a subscriber known to the hub.
type listener struct {
	subscriber Subscriber
	enqueue    func(Subscriber, Cause)
}

func (l *listener) wake(c Cause) { l.enqueue(l.subscriber, c) }

// router finds the listeners of a kind's objects, for all its actors: an object
// may be held by two of them, and whoever reads it from one must hear when the
// other catches up.
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

// concerned returns those whom the object concerned before a change, and those
// whom it concerns now.
func (r *router) concerned(t transition) []*listener {
	var out found[*listener]
	r.mu.RLock()
	defer r.mu.RUnlock()
	if t.was != nil {
		r.index.find(placeOf(t.was), &out)
	}
	if t.is != nil && t.is != t.was {
		r.index.find(placeOf(t.is), &out)
	}
	return out.list
}

// emit routes changes to those they concern, except to who made them: the writer
// has its answer already, or is about to.
func (a *actor) emit(changes []transition, writer Subscriber) {
	if len(changes) == 0 {
		return
	}
	a.count(len(changes))
	now, servings := time.Now(), a.served()
	for _, t := range changes {
		event := withheldEvent{incarnation: stateOf(t), cause: t.cause(now)}
		name := nameOf(t.object())
		send := func(to Subscriber, wake func(Cause)) {
			event.wake = wake
			if to != writer && !a.writes.withhold(name, to, event) {
				wake(event.cause)
			}
		}
		for _, l := range a.router.concerned(t) {
			send(l.subscriber, l.wake)
		}
		for _, s := range servings {
			send(Subscriber{event.cause.Object}, s.report)
		}
	}
}

// replay reports objects that were there before we looked, to servings alone:
// leases are told of the kind once.
func (a *actor) replay(changes []transition) {
	a.count(len(changes))
	now, servings := time.Now(), a.served()
	for _, t := range changes {
		t.replay = true
		cause := t.cause(now)
		for _, s := range servings {
			s.report(cause)
		}
	}
}

// tell wakes all subscribers once, about the kind.
func (a *actor) tell() {
	var all found[*listener]
	a.mu.Lock()
	all.addAll(&a.subscribers)
	a.mu.Unlock()
	about := object.Key{Group: a.gvk.Group, Kind: a.gvk.Kind}
	cause := Cause{Object: about, Change: KindState, Priority: Normal, At: time.Now()}
	for _, l := range all.list {
		l.wake(cause)
	}
	for _, s := range a.served() {
		s.report(cause)
	}
}

func (a *actor) served() []*Serving {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.servings
}

func (a *actor) counted() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.events
}

func (a *actor) count(events int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events += uint64(events)
}
