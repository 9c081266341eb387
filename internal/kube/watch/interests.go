package watch

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// interests counts the interests that an actor serves: a target of a lease or a KindWatch is
// one interest in a selection of a kind.
type interests struct {
	count      int // all interests
	narrower   int // of these, the ones in narrower selections, which this actor serves too
	departures int // how often the last interest was released
	grace      *time.Timer
}

// hasOwnInterest reports whether there is an interest in the actor's own selection. An actor of a whole kind, or of its
// managed objects, serves narrower selections only as long as there is: it does not run for those alone. That of a
// namespace does, for the single objects in it.
func (i *interests) hasOwnInterest() bool { return i.count > i.narrower }

func (i *interests) stopGrace() {
	if i.grace != nil {
		i.grace.Stop()
		i.grace = nil
	}
}

// acquire returns the actor that serves a selection, with one more interest. The caller subscribes to it and then
// launches it, so the first subscriber of a kind is notified of its first state. The lock is held.
//
// An actor of the whole kind serves every selection of it, so no object is watched twice. So does the actor of managed
// objects in all namespaces for managed objects in one; and many single objects of a namespace have one actor.
func (h *Hub) acquire(gvk schema.GroupVersionKind, s Selection) *actor {
	k := h.kindOf(gvk)
	if wholeKind := k.wholeFor(s); wholeKind != nil {
		wholeKind.count++
		wholeKind.narrower++
		return wholeKind
	}
	served := k.join(s)
	a := k.actors.get(served)
	if a == nil {
		a = newActor(&h.env, k, served)
		k.add(a)
	}
	if a.count == 0 {
		h.env.Quota.uncount(a) // in its grace period; it counts again if the new interest does
	}
	a.count++
	if served != s {
		a.narrower++
	}
	a.stopGrace()
	return a
}

// acquireFor is acquire for a target of a lease, unless the quota refuses it. The lock is held.
func (h *Hub) acquireFor(l *Lease, t Target, own bool) (i interest, refusal string) {
	quota, gvk, s := h.env.Quota, t.kind, t.selection
	if !l.limited || !quota.counts(s, l.sub.listener.subscriber.Namespace) || h.stopped {
		return interest{actor: h.acquire(gvk, s)}, ""
	}
	k := h.kindOf(gvk)
	if k.wholeFor(s) != nil {
		return interest{actor: h.acquire(gvk, s)}, "" // it costs nothing more
	}
	// An admitted target that joins another watch needs no watch of its own once the lease is committed. A target that
	// leaves such a watch needs one, and is not exempt.
	served := k.join(s)
	replaces := l.sub.committed[t].counted && served != s
	targets := l.counts
	if own {
		targets = 0
	}
	if refusal = quota.check(l.waiter(), targets, k.actors.get(served), replaces); refusal != "" {
		l.refused = true
		if k.actors.isEmpty() {
			delete(h.kinds, gvk)
		}
		return interest{}, refusal
	}
	a := h.acquire(gvk, s)
	quota.acquired(l.sub.listener.subscriber.Namespace, a)
	return interest{actor: a, counted: true}, ""
}

// It is the actor of the whole kind or, for the managed objects of a namespace, of the managed objects of all. The
// latter may be forbidden to an account that may read the namespace; then it serves nothing else.
func (k *kind) wholeFor(s Selection) *actor {
	for _, wider := range [...]Selection{All(), Managed()} {
		whole := k.actors.get(wider)
		switch {
		case whole == nil, s == wider, !whole.hasOwnInterest(), wider == Managed() && !s.isManagedIn():
		case s.isManagedIn() && whole.current().Reason == Forbidden:
		default:
			return whole
		}
	}
	return nil
}

// It adds the kind if there is none. The lock is held.
func (h *Hub) kindOf(gvk schema.GroupVersionKind) *kind {
	return ensure(&h.kinds, gvk, func() *kind {
		k := &kind{
			gvk:    gvk,
			router: router{index: newIndex[*listener](h.env.OwnerLabel)},
			compactor: &compactor{
				manager: h.env.FieldManager, isForeignEntry: h.env.IsForeignEntry,
				keepLastApplied: slices.Contains(h.env.KeepLastApplied, gvk),
			},
		}
		return k
	})
}

// release removes one interest. If that was the last one of an actor in its own selection, it returns the actor: the
// caller notifies the remaining subscribers, which are in narrower selections, so they acquire actors of their own. An
// actor without any interest stops after the grace period. The lock is held.
func (h *Hub) release(a *actor, s Selection) (displaced *actor) {
	a.count--
	if s != a.selection {
		a.narrower--
	}
	if a.count == 0 && !h.stopped {
		a.stopGrace()
		a.departures++
		departure := a.departures
		a.grace = time.AfterFunc(h.env.Grace, func() { h.retire(a, departure) })
		return nil
	}
	if a.count > 0 && !a.hasOwnInterest() && s == a.selection {
		return a
	}
	return nil
}

// retire stops an actor after its grace period, unless it was acquired in the meantime, even if it was released again.
// It starts nothing and waits for nothing.
//
// Actors of wider selections that are not in sync have let their subscribers read from it. These are notified.
func (h *Hub) retire(a *actor, departure int) {
	h.mu.Lock()
	if a.count > 0 || a.departures != departure || h.stopped {
		h.mu.Unlock()
		return
	}
	k := h.kinds[a.gvk]
	k.remove(a)
	if k.actors.isEmpty() {
		delete(h.kinds, a.gvk)
	}
	if a.cancel != nil {
		a.cancel()
	}
	h.env.Quota.uncount(a)
	var unsynced []*actor
	for wider := range k.actors.each() {
		if wider.narrower > 0 && wider.current().Phase != Synced {
			unsynced = append(unsynced, wider)
		}
	}
	h.mu.Unlock()
	notifyAll(unsynced)
}
