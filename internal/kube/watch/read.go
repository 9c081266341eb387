package watch

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The objects that reads return are shared and read-only: DeepCopy one to
// change it. They are compact: of the managed fields only Config.FieldManager's
// and those that Config.Former names are there.

// Served returns an object of a kind that is served, from the watch of the whole
// kind alone: its Serving is told when that changes.
func (h *Hub) Served(gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, bool) {
	whole := h.whole(gvk)
	if whole == nil {
		return nil, false
	}
	return whole.store.get(objectName{namespace, name})
}

// whole is the watch of a whole kind; nil if there is none.
func (h *Hub) whole(gvk schema.GroupVersionKind) *actor {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if k := h.kinds[gvk]; k != nil {
		return k.actors[All()]
	}
	return nil
}

// WasOrphaned says of an object of a kind that is served whether a deletion of this
// incarnation has asked for its dependents to be left in place, as far as the watch
// has told: also when the garbage collector has seen to that since, and when nobody
// has read the object meanwhile.
func (h *Hub) WasOrphaned(gvk schema.GroupVersionKind, o *unstructured.Unstructured) bool {
	whole := h.whole(gvk)
	return whole != nil && whole.store.orphans(nameOf(o), uidOf(o))
}

// Bypassed returns the last state of an object of a kind that is served, if the API server
// has deleted it although it had finalizers and nobody had asked for its deletion: the
// server doesn't see a finalizer that is put on while it carries out a deletion. It is
// remembered until ForgetBypassed, also while there is another object of the name.
func (h *Hub) Bypassed(gvk schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	whole := h.whole(gvk)
	if whole == nil {
		return nil
	}
	return whole.store.lastOf(objectName{namespace, name})
}

// ForgetBypassed forgets what Bypassed tells of an object.
func (h *Hub) ForgetBypassed(gvk schema.GroupVersionKind, namespace, name string) {
	if whole := h.whole(gvk); whole != nil {
		whole.store.forgetLastOf(objectName{namespace, name})
	}
}

// Select returns the objects that a Matching target of the same namespace and
// selector watches, sorted by namespace and name. It looks at every object of
// the selection, or of the kind if that is watched as a whole.
func (h *Hub) Select(gvk schema.GroupVersionKind, namespace string, selector labels.Selector) []*unstructured.Unstructured {
	a := h.server(gvk, Labelled(namespace, selector))
	if a == nil {
		return nil
	}
	objects, _ := a.store.list(within(namespace, selector))
	return objects
}

func within(namespace string, selector labels.Selector) func(place) bool {
	return func(p place) bool {
		return (namespace == "" || p.namespace == namespace) && selector.Matches(p.labels)
	}
}

// State returns the state of the watch that serves the selection.
func (h *Hub) State(gvk schema.GroupVersionKind, s Selection) State {
	if a := h.server(gvk, s); a != nil {
		return a.current()
	}
	return State{}
}

// server returns the actor that reads of a selection are answered by: its own
// once that is in sync, else the whole kind's.
func (h *Hub) server(gvk schema.GroupVersionKind, s Selection) *actor {
	h.mu.RLock()
	defer h.mu.RUnlock()
	k := h.kinds[gvk]
	if k == nil {
		return nil
	}
	own, whole := k.actors[s], k.actors[All()]
	if own == nil || whole != nil && own.current().Phase != Synced {
		return whole
	}
	return own
}

// holders returns the actors that an object of this name may be held by.
func (h *Hub) holders(gvk schema.GroupVersionKind, one Selection) []*actor {
	h.mu.RLock()
	defer h.mu.RUnlock()
	k := h.kinds[gvk]
	if k == nil {
		return nil
	}
	out := make([]*actor, 0, 3)
	for _, s := range [...]Selection{All(), Managed(), one} {
		if a := k.actors[s]; a != nil {
			out = append(out, a)
		}
	}
	return slices.Concat(out, k.labelled)
}
