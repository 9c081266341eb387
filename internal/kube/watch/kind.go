package watch

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kind holds the actors of one kind, and what they share.
type kind struct {
	gvk       schema.GroupVersionKind
	router    router
	writes    inFlightWrites
	compactor *compactor

	// Guarded by the hub's lock.
	actors   map[Selection]*actor
	past     map[string]uint64 // events of actors that have left, by class
	labelled []*actor          // those of actors that select by labels; replaced, not changed
}

func (k *kind) add(a *actor) {
	k.actors[a.selection] = a
	if a.selection.class() == "labelled" {
		k.labelled = append(slices.Clip(k.labelled), a)
	}
}

func (k *kind) remove(a *actor) {
	delete(k.actors, a.selection)
	ensure(&k.past, a.selection.class(), func() uint64 { return 0 })
	k.past[a.selection.class()] += a.counted()
	k.labelled = slices.DeleteFunc(slices.Clone(k.labelled), func(o *actor) bool { return o == a })
}

// KindChange is what happened to a kind's definition.
type KindChange string

// The changes of a kind.
const (
	KindAdded   KindChange = "Arrived" // it is served now, or may be
	KindUpdated KindChange = "Altered" // its versions or schema changed
	KindDeleted KindChange = "Deleted" // its definition, and so its objects, are gone
)

// KindChanged tells the hub of a change of a kind's definition, in whatever
// version. Watching resumes, starts over, or stops until the kind is back;
// subscribers stay subscribed and are told as it happens.
//
// It is an accelerator: what it isn't told the hub finds out, within a minute of
// when Config.Resolve knows.
func (h *Hub) KindChanged(gk schema.GroupKind, change KindChange) {
	for _, a := range h.actorsOf(func(k *kind) bool { return k.gvk.GroupKind() == gk }) {
		a.kindChanged(change)
	}
}

// GroupChanged tells the hub that kinds of a version of a group may have come. It
// is an accelerator, as KindChanged is.
func (h *Hub) GroupChanged(gv schema.GroupVersion) {
	for _, a := range h.actorsOf(func(k *kind) bool { return k.gvk.GroupVersion() == gv }) {
		a.kindChanged(KindAdded)
	}
}

// Recheck has the API server asked anew whether objects of a resource may be listed and
// watched. A watch that is open goes on after the right to it is revoked, for as long as its
// connection lasts, and it wouldn't be known what it misses then.
func (h *Hub) Recheck(resource schema.GroupResource) {
	for _, a := range h.actorsOf(func(k *kind) bool { return k.gvk.Group == resource.Group }) {
		a.recheck(resource)
	}
}

func (a *actor) recheck(resource schema.GroupResource) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.interrupt != nil && a.resource.GroupResource() == resource {
		a.interrupt()
	}
}

// Idle says that nobody wants anything of the hub.
func (h *Hub) Idle() bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.kinds) == 0
}

// actorsOf returns the actors of the kinds that are meant.
func (h *Hub) actorsOf(meant func(*kind) bool) []*actor {
	h.mu.RLock()
	defer h.mu.RUnlock()
	var out []*actor
	for _, k := range h.kinds {
		if meant(k) {
			out = slices.AppendSeq(out, maps.Values(k.actors))
		}
	}
	return out
}
