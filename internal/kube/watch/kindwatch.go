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
	hub     *Hub
	actor   *actor
	onEvent func(object.Key, Cause)
	stop    sync.Once
}

// WatchKind reports every object of a kind to onEvent, the existing ones and each change
// from then on. Changes of the kind's state have a key without a name. onEvent is called
// from several goroutines, possibly before WatchKind returns, and must not block.
func (h *Hub) WatchKind(gvk schema.GroupVersionKind, onEvent func(object.Key, Cause)) *KindWatch {
	h.mu.Lock()
	a := h.acquire(gvk, All())
	w := &KindWatch{hub: h, actor: a, onEvent: onEvent}
	a.mu.Lock()
	a.watchers = append(slices.Clip(a.watchers), w)
	a.mu.Unlock()
	// The first list reports the objects that the store does not have. If the watch begins only now, the objects that
	// the store does have, from answers to writes, are read before, so none is reported twice.
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
		w.report(Cause{Object: object.KeyOf(o), Change: Resync, Old: metadataFrom(o), New: metadataFrom(o), ObservedAt: time.Now()})
	}
	return w
}

func everything(identity) bool { return true }

func (w *KindWatch) report(c Cause) { w.onEvent(c.Object, c) }

// State returns the state of the kind's watch.
func (w *KindWatch) State() State { return w.actor.current() }

// Stop ends the reports; one that is in flight may still come. It starts nothing, waits for
// nothing, and does nothing the second time.
func (w *KindWatch) Stop() {
	w.stop.Do(func() {
		h, a := w.hub, w.actor
		h.mu.Lock()
		a.mu.Lock()
		a.watchers = slices.DeleteFunc(slices.Clone(a.watchers), func(o *KindWatch) bool { return o == w })
		a.mu.Unlock()
		displaced := h.release(a, All())
		h.mu.Unlock()
		if displaced != nil {
			displaced.notify()
		}
	})
}
