package watch

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// subscription is what a subscriber has committed to.
type subscription struct {
	listener *listener
	held     holding
	leases   int // under way; a subscription without held targets lives for them
}

// holding is a set of targets, each with the actor that serves it.
type holding map[Target]*actor

// Lease collects what a subscriber wants in one pass. While it is open, events
// of what the subscriber held before and of what it wants now both reach it.
//
// A subscriber has one lease at a time; the caller sees to that. The lease's
// methods are safe for concurrent use.
type Lease struct {
	hub *Hub
	sub *subscription

	once   sync.Once
	wanted holding // guarded by the hub's lock; nil once the lease ended
}

// Begin opens a lease, to be ended by Commit or Discard.
func (h *Hub) Begin(s Subscriber) *Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	sub := ensure(&h.subs, s, func() *subscription {
		return &subscription{listener: &listener{s, h.world.Enqueue}}
	})
	sub.leases++
	return &Lease{hub: h, sub: sub, wanted: holding{}}
}

// Want declares an interest and returns the state of the kind now. From before
// it returns, every change to the target's objects wakes the subscriber; so what
// is read afterwards is either current or about to be announced.
//
// Unless the state is Synced the objects may be missing from the hub without
// being missing from the cluster. Any change of the state wakes the subscriber.
//
// Wanting on a lease that ended has no effect.
func (l *Lease) Want(t Target) State {
	h := l.hub
	h.mu.Lock()
	if l.wanted == nil {
		h.mu.Unlock()
		return h.State(t.kind, t.selection)
	}
	a, ok := l.wanted[t]
	if !ok {
		a = h.engage(t.kind, t.selection)
		a.subscribe(l.sub.listener, t.route)
		h.launch(a)
		l.wanted[t] = a
	}
	h.mu.Unlock()
	return a.current()
}

// Commit makes what was wanted the subscriber's set, as a whole.
func (l *Lease) Commit() {
	l.end(func(sub *subscription) (dropped holding) {
		dropped, sub.held = sub.held, l.wanted
		return dropped
	})
}

// Discard forgets what was wanted; the subscriber keeps the set it had. After
// Commit it does nothing, so that it can be deferred.
func (l *Lease) Discard() {
	l.end(func(*subscription) holding { return l.wanted })
}

func (l *Lease) end(choose func(*subscription) holding) {
	l.once.Do(func() {
		h := l.hub
		h.mu.Lock()
		dropped := choose(l.sub)
		l.wanted = nil
		l.sub.leases--
		homeless := h.releaseAll(l.sub, dropped)
		h.mu.Unlock()
		tellAll(homeless)
	})
}

// Forget drops all that a subscriber holds. An event that is on its way may
// still reach it.
func (h *Hub) Forget(s Subscriber) {
	h.mu.Lock()
	var homeless []*actor
	if sub := h.subs[s]; sub != nil {
		dropped := sub.held
		sub.held = nil
		homeless = h.releaseAll(sub, dropped)
	}
	h.mu.Unlock()
	tellAll(homeless)
}

// ForgetKind drops all that the subscribers of a kind hold: nobody serves them any
// more. It looks at every subscription there is.
func (h *Hub) ForgetKind(gk schema.GroupKind) {
	h.mu.Lock()
	var homeless []*actor
	for who, sub := range h.subs {
		if who.GroupKind() == gk {
			dropped := sub.held
			sub.held = nil
			homeless = append(homeless, h.releaseAll(sub, dropped)...)
		}
	}
	h.mu.Unlock()
	tellAll(homeless)
}

// releaseAll lets go of targets, and of the subscription if it is empty now. It
// returns actors whose subscribers are to be told once the lock, which is held,
// is released.
func (h *Hub) releaseAll(sub *subscription, dropped holding) (homeless []*actor) {
	for t, a := range dropped {
		a.unsubscribe(sub.listener, t.route)
		if left := h.release(a, t.selection); left != nil {
			homeless = append(homeless, left)
		}
	}
	if len(sub.held) == 0 && sub.leases == 0 {
		delete(h.subs, sub.listener.subscriber)
	}
	return homeless
}

// tellAll wakes the guests of actors that are about to leave, so that they want
// what they want again, from an actor of their own.
func tellAll(homeless []*actor) {
	for _, a := range homeless {
		a.tell()
	}
}

func (a *actor) subscribe(l *listener, r route) {
	a.router.add(l, r)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.subscribers.add(l)
}

func (a *actor) unsubscribe(l *listener, r route) {
	a.router.remove(l, r)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.subscribers.remove(l)
}
