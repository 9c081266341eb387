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
	narrower   int // of these, the ones in narrower selections, which this actor of the whole kind serves too
	departures int // how often the last interest was released
	grace      *time.Timer
}

// hasOwnInterest says whether there is an interest in the actor's own selection. An actor of a
// whole kind serves narrower selections only as long as there is: it does not run for those
// alone.
func (i *interests) hasOwnInterest() bool { return i.count > i.narrower }

func (i *interests) stopGrace() {
	if i.grace != nil {
		i.grace.Stop()
		i.grace = nil
	}
}

// acquire returns the actor that serves a selection, with one more interest. The caller
// subscribes to it and then launches it, so that the first subscriber of a kind is notified
// of its first state. The lock is held.
//
// An actor of the whole kind serves every selection of it, so that no object is watched
// twice.
func (h *Hub) acquire(gvk schema.GroupVersionKind, s Selection) *actor {
	k := ensure(&h.kinds, gvk, func() *kind {
		return &kind{
			gvk:       gvk,
			router:    router{index: newIndex[*listener](h.env.OwnerLabel)},
			compactor: &compactor{manager: h.env.FieldManager, isFormerEntry: h.env.IsFormerEntry, keepLastApplied: slices.Contains(h.env.KeepLastApplied, gvk)},
			actors:    map[Selection]*actor{},
		}
	})
	if wholeKind := k.actors[All()]; wholeKind != nil && s != All() && wholeKind.hasOwnInterest() {
		wholeKind.count++
		wholeKind.narrower++
		return wholeKind
	}
	a := k.actors[s]
	if a == nil {
		a = newActor(&h.env, k, s)
		k.add(a)
	}
	a.count++
	a.stopGrace()
	return a
}

// release removes one interest. If that was the last one of an actor in its own selection,
// it returns the actor: the caller notifies the remaining subscribers, which are in
// narrower selections, so that they acquire actors of their own. An actor without any
// interest stops after the grace period. The lock is held.
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

// retire stops an actor whose grace period is over, unless it was acquired in the meantime,
// even if it was released again. It starts nothing and waits for nothing.
func (h *Hub) retire(a *actor, departure int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a.count > 0 || a.departures != departure || h.stopped {
		return
	}
	k := h.kinds[a.gvk]
	k.remove(a)
	if len(k.actors) == 0 {
		delete(h.kinds, a.gvk)
	}
	if a.cancel != nil {
		a.cancel()
	}
}
