package watch

import (
	"slices"

	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// interests counts what an actor is wanted for.
type interests struct {
	wanted     int // all that it serves
	guests     int // of these, who would be served by a narrower one, were this not here
	departures int // how often the last one left
	grace      *time.Timer
}

// host tells whether an actor of a whole kind may take guests: not when guests
// are all it would live for.
func (i *interests) host() bool { return i.wanted > i.guests }

func (i *interests) stopGrace() {
	if i.grace != nil {
		i.grace.Stop()
		i.grace = nil
	}
}

// engage returns the actor that serves a selection, with one more interest in
// it. The caller subscribes to it and then launches it, so that the first to want
// a kind hears of its first state. The lock is held.
//
// An actor of the whole kind serves every selection of it, so that no object is
// watched twice.
func (h *Hub) engage(gvk schema.GroupVersionKind, s Selection) *actor {
	k := ensure(&h.kinds, gvk, func() *kind {
		return &kind{
			gvk:       gvk,
			router:    router{index: newIndex[*listener](h.world.OwnerLabel)},
			compactor: &compactor{manager: h.world.FieldManager, former: h.world.Former, annotated: slices.Contains(h.world.Annotated, gvk)},
			actors:    map[Selection]*actor{},
		}
	})
	if whole := k.actors[All()]; whole != nil && s != All() && whole.host() {
		whole.wanted++
		whole.guests++
		return whole
	}
	a := k.actors[s]
	if a == nil {
		a = newActor(&h.world, k, s)
		k.add(a)
	}
	a.wanted++
	a.stopGrace()
	return a
}

// release takes one interest back. It returns guests to tell that their host is
// about to leave; an actor without any interest leaves after the grace. The lock
// is held.
func (h *Hub) release(a *actor, s Selection) (homeless *actor) {
	a.wanted--
	if s != a.selection {
		a.guests--
	}
	if a.wanted == 0 && !h.stopped {
		a.stopGrace()
		a.departures++
		departure := a.departures
		a.grace = time.AfterFunc(h.world.Grace, func() { h.retire(a, departure) })
		return nil
	}
	if a.wanted > 0 && !a.host() && s == a.selection {
		return a
	}
	return nil
}

// retire stops an actor whose grace is over, unless somebody came back, or came
// back and left again, in the meantime. It starts nothing and waits for nothing.
func (h *Hub) retire(a *actor, departure int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a.wanted > 0 || a.departures != departure || h.stopped {
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
