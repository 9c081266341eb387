package watch

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

type subscription struct {
	listener  *listener
	committed targetSet
	leases    int // open ones; they keep a subscription without committed targets
}

type targetSet map[Target]interest

type interest struct {
	*actor       // that serves it
	counted bool // by the quota
}

// Lease collects the targets that a subscriber watches during one reconcile. While it is open, the subscriber receives
// the events of both its committed targets and the lease's. It has nothing to do with a coordination.k8s.io Lease.
//
// A subscriber has one lease at a time, which the caller ensures. The methods are safe for concurrent use.
type Lease struct {
	hub     *Hub
	sub     *subscription
	limited bool // by the quota

	once    sync.Once
	wanted  targetSet // guarded by the hub's lock; nil once the lease ended
	counts  int       // of these, the ones that count for Limits.PerSubscriber
	refused bool      // by the quota; guarded by the hub's lock
}

func (l *Lease) waiter() waiter { return waiter{l.hub, l.sub.listener.subscriber} }

// Begin opens a lease without limits, for what controllers read for themselves. The caller ends
// it by Commit or Discard.
func (h *Hub) Begin(s Subscriber) *Lease { return h.begin(s, false, h.env.Enqueue) }

// BeginFunc is Begin for a subscriber without a controller. Its events call wake, from several goroutines; it must
// not block. If the subscriber has targets or an open lease, it is woken as it was before.
func (h *Hub) BeginFunc(s Subscriber, wake func(Cause)) *Lease {
	return h.begin(s, false, func(_ Subscriber, c Cause) { wake(c) })
}

// BeginWithinQuota is Begin for an instance: Config.Quota counts its targets, and may refuse them.
func (h *Hub) BeginWithinQuota(s Subscriber) *Lease { return h.begin(s, true, h.env.Enqueue) }

func (h *Hub) begin(s Subscriber, limited bool, enqueue func(Subscriber, Cause)) *Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	sub := ensure(&h.subs, s, func() *subscription {
		return &subscription{listener: &listener{s, enqueue}}
	})
	sub.leases++
	return &Lease{hub: h, sub: sub, limited: limited, wanted: targetSet{}}
}

// Watch adds a target and returns the state of its kind. From before it returns, every
// change of the target's objects wakes the subscriber; so what is read afterwards is either
// current, or an event follows.
//
// Unless the state is Synced, objects may be missing from the hub that exist in the
// cluster. Any change of the state wakes the subscriber.
//
// A target beyond a limit of Config.Quota is not added to a lease within the quota: its state is
// Unavailable, with the reason LimitExceeded.
//
// After the lease ended, Watch has no effect but to return the state.
func (l *Lease) Watch(t Target) State { return l.watch(t, false) }

// An own target does not count for Limits.PerSubscriber.
func (l *Lease) watch(t Target, own bool) State {
	h := l.hub
	h.mu.Lock()
	if l.wanted == nil {
		h.mu.Unlock()
		return h.State(t.kind, t.selection)
	}
	i, ok := l.wanted[t]
	if !ok {
		var refusal string
		if i, refusal = h.acquireFor(l, t, own); refusal != "" {
			h.mu.Unlock()
			return State{Phase: Unavailable, Reason: LimitExceeded, Message: refusal}
		}
		if i.counted && !own {
			l.counts++
		}
		i.subscribe(l.sub.listener, t.route)
		h.launch(i.actor)
		l.wanted[t] = i
	}
	h.mu.Unlock()
	return i.current()
}

// Commit replaces the subscriber's targets by the targets of the lease.
func (l *Lease) Commit() {
	l.end(func(sub *subscription) (dropped targetSet) {
		dropped, sub.committed = sub.committed, l.wanted
		if l.limited && !l.refused {
			l.hub.env.Quota.forget(l.waiter())
		}
		return dropped
	})
}

// Discard drops the targets of the lease; the subscriber keeps those it had. After Commit
// it does nothing, so it can be deferred.
func (l *Lease) Discard() {
	l.end(func(*subscription) targetSet { return l.wanted })
}

func (l *Lease) end(choose func(*subscription) targetSet) {
	l.once.Do(func() {
		h := l.hub
		h.mu.Lock()
		dropped := choose(l.sub)
		l.wanted = nil
		l.sub.leases--
		displaced := h.releaseAll(l.sub, dropped)
		h.mu.Unlock()
		notifyAll(displaced)
	})
}

// Forget drops all targets of a subscriber. An event that is in flight may still reach it.
func (h *Hub) Forget(s Subscriber) {
	h.mu.Lock()
	h.env.Quota.forget(waiter{h, s})
	var displaced []*actor
	if sub := h.subs[s]; sub != nil {
		dropped := sub.committed
		sub.committed = nil
		displaced = h.releaseAll(sub, dropped)
	}
	h.mu.Unlock()
	notifyAll(displaced)
}

// ForgetKind drops all targets of the subscribers of a kind, which is no longer reconciled.
// It iterates over all subscriptions.
func (h *Hub) ForgetKind(gk schema.GroupKind) {
	h.mu.Lock()
	h.env.Quota.forgetAll(func(w waiter) bool { return w.hub == h && w.subscriber.GroupKind() == gk })
	var displaced []*actor
	for subscriber, sub := range h.subs {
		if subscriber.GroupKind() == gk {
			dropped := sub.committed
			sub.committed = nil
			displaced = append(displaced, h.releaseAll(sub, dropped)...)
		}
	}
	h.mu.Unlock()
	notifyAll(displaced)
}

func notifyAll(actors []*actor) {
	for _, a := range actors {
		a.notify()
	}
}

// releaseAll releases targets, and deletes the subscription if it is empty now. It returns the
// actors that are about to stop: the caller notifies their subscribers, which acquire actors of
// their own, once it holds no lock. The lock is held.
func (h *Hub) releaseAll(sub *subscription, dropped targetSet) (displaced []*actor) {
	for t, i := range dropped {
		i.unsubscribe(sub.listener, t.route)
		if a := h.release(i.actor, t.selection); a != nil {
			displaced = append(displaced, a)
		}
		if i.counted {
			h.env.Quota.released(sub.listener.subscriber.Namespace, i.actor, i.count > 0)
		}
	}
	if len(sub.committed) == 0 && sub.leases == 0 {
		delete(h.subs, sub.listener.subscriber)
	}
	return displaced
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
