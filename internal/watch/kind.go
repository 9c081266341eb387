package watch

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kind holds the actors of one kind, and what they share.
type kind struct {
	gvk       schema.GroupVersionKind
	router    router
	writes    underway
	compactor *compactor

	// Guarded by the hub's lock.
	actors   map[Selection]*actor
	labelled []*actor // those of actors that select by labels; replaced, not changed
}

func (k *kind) add(a *actor) {
	k.actors[a.selection] = a
	if a.selection.class() == "labelled" {
		k.labelled = append(slices.Clip(k.labelled), a)
	}
}

func (k *kind) remove(a *actor) {
	delete(k.actors, a.selection)
	k.labelled = slices.DeleteFunc(slices.Clone(k.labelled), func(o *actor) bool { return o == a })
}

// KindChange is what happened to a kind's definition.
type KindChange string

// The changes of a kind.
const (
	KindArrived KindChange = "Arrived" // it is served now, or may be
	KindAltered KindChange = "Altered" // its versions or schema changed
	KindDeleted KindChange = "Deleted" // its definition, and so its objects, are gone
)

// KindChanged tells the hub of a change of a kind's definition, in whatever
// version. Watching resumes, starts over, or stops until the kind is back;
// subscribers stay subscribed and are told as it happens.
//
// It is an accelerator: what it isn't told the hub finds out, within a minute.
func (h *Hub) KindChanged(gk schema.GroupKind, change KindChange) {
	h.mu.RLock()
	var concerned []*actor
	for gvk, k := range h.kinds {
		if gvk.GroupKind() == gk {
			for _, a := range k.actors {
				concerned = append(concerned, a)
			}
		}
	}
	h.mu.RUnlock()
	for _, a := range concerned {
		a.kindChanged(change)
	}
}
