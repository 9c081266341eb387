package watch

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/object"
)

// Serving is the watch of a whole kind by the controller that serves it. It is
// its own identity: of two servings of a kind, stopping one leaves the other.
type Serving struct {
	hub   *Hub
	actor *actor
	event func(object.Key, Cause)
	stop  sync.Once
}

// Serve reports every object of a kind to onEvent, those that are there already
// and each change from then on; changes of the kind's state come under a key
// without a name. onEvent is called from several goroutines, possibly before
// Serve returns, and must not block.
func (h *Hub) Serve(gvk schema.GroupVersionKind, onEvent func(object.Key, Cause)) *Serving {
	h.mu.Lock()
	a := h.engage(gvk, All())
	s := &Serving{hub: h, actor: a, event: onEvent}
	a.mu.Lock()
	a.servings = append(slices.Clip(a.servings), s)
	a.mu.Unlock()
	// A watch that begins only now reports all that it finds by itself.
	begins := a.cancel == nil
	var there []*unstructured.Unstructured
	if begins {
		there, _ = a.store.list(everywhere)
	}
	h.launch(a)
	h.mu.Unlock()
	if !begins {
		there, _ = a.store.list(everywhere)
	}
	for _, o := range there {
		s.report(Cause{Object: object.KeyOf(o), Change: Resync, Was: marksOf(o), Is: marksOf(o), At: time.Now()})
	}
	return s
}

func everywhere(place) bool { return true }

func (s *Serving) report(c Cause) { s.event(c.Object, c) }

// State returns the state of the kind's watch.
func (s *Serving) State() State { return s.actor.current() }

// Stop ends the reports; one that is on its way may still come. It starts
// nothing, waits for nothing, and does nothing the second time.
func (s *Serving) Stop() {
	s.stop.Do(func() {
		h, a := s.hub, s.actor
		h.mu.Lock()
		a.mu.Lock()
		a.servings = slices.DeleteFunc(slices.Clone(a.servings), func(o *Serving) bool { return o == s })
		a.mu.Unlock()
		homeless := h.release(a, All())
		h.mu.Unlock()
		if homeless != nil {
			homeless.tell()
		}
	})
}
