package watch

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/object"
)

// KindWatch is the watch of a whole kind by the controller that reconciles it. It is its
// own identity: of two KindWatches of a kind, stopping one leaves the other running.
type KindWatch struct {
	hub   *Hub
	actor *actor
	event func(object.Key, Cause)
	stop  sync.Once
}

// WatchKind reports every object of a kind to onEvent, the existing ones and each change
// from then on. Changes of the kind's state have a key without a name. onEvent is called
// from several goroutines, possibly before WatchKind returns, and must not block.
func (h *Hub) WatchKind(gvk schema.GroupVersionKind, onEvent func(object.Key, Cause)) *KindWatch {
	h.mu.Lock()
	a := h.acquire(gvk, All())
	s := &KindWatch{hub: h, actor: a, event: onEvent}
	a.mu.Lock()
	a.watchers = append(slices.Clip(a.watchers), s)
	a.mu.Unlock()
	// A watch that begins only now reports all that it finds by itself.
	begins := a.cancel == nil
	var existing []*unstructured.Unstructured
	if begins {
		existing, _ = a.store.list(everything)
	}
	h.launch(a)
	h.mu.Unlock()
	if !begins {
		existing, _ = a.store.list(everything)
	}
	for _, o := range existing {
		s.report(Cause{Object: object.KeyOf(o), Change: Resync, Old: metadataFrom(o), New: metadataFrom(o), ObservedAt: time.Now()})
	}
	return s
}

func everything(identity) bool { return true }

func (s *KindWatch) report(c Cause) { s.event(c.Object, c) }

// State returns the state of the kind's watch.
func (s *KindWatch) State() State { return s.actor.current() }

// Stop ends the reports; one that is in flight may still come. It starts nothing, waits for
// nothing, and does nothing the second time.
func (s *KindWatch) Stop() {
	s.stop.Do(func() {
		h, a := s.hub, s.actor
		h.mu.Lock()
		a.mu.Lock()
		a.watchers = slices.DeleteFunc(slices.Clone(a.watchers), func(o *KindWatch) bool { return o == s })
		a.mu.Unlock()
		displaced := h.release(a, All())
		h.mu.Unlock()
		if displaced != nil {
			displaced.notify()
		}
	})
}
