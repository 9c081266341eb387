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
	actors      map[Selection]*actor
	endedEvents map[string]uint64 // events of stopped actors, by class
	labelled    []*actor          // actors of selections by labels; replaced, never modified
}

func (k *kind) add(a *actor) {
	k.actors[a.selection] = a
	if a.selection.class() == "labelled" {
		k.labelled = append(slices.Clip(k.labelled), a)
	}
}

func (k *kind) remove(a *actor) {
	delete(k.actors, a.selection)
	ensure(&k.endedEvents, a.selection.class(), func() uint64 { return 0 })
	k.endedEvents[a.selection.class()] += a.eventCount()
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

// KindChanged tells the hub that a kind's definition has changed, in whatever version.
// Watching resumes, starts over, or stops until the kind is back. Subscribers stay
// subscribed and are notified.
//
// The call only speeds this up: without it the hub finds out within a minute after
// Config.Resolve returns the change.
func (h *Hub) KindChanged(gk schema.GroupKind, change KindChange) {
	for _, a := range h.actorsOf(func(k *kind) bool { return k.gvk.GroupKind() == gk }) {
		a.kindChanged(change)
	}
}

// GroupChanged tells the hub that kinds of a group version may have been added. The call
// only speeds things up, as KindChanged does.
func (h *Hub) GroupChanged(gv schema.GroupVersion) {
	for _, a := range h.actorsOf(func(k *kind) bool { return k.gvk.GroupVersion() == gv }) {
		a.kindChanged(KindAdded)
	}
}

// RecheckAccess restarts the watches of a resource, so that the API server authorizes them
// again. An open watch continues after its permission was revoked, for as long as its
// connection lasts, and nothing would show what it misses.
func (h *Hub) RecheckAccess(resource schema.GroupResource) {
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

// IsIdle says whether the hub has no interests.
func (h *Hub) IsIdle() bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.kinds) == 0
}

// actorsOf returns the actors of the kinds that match.
func (h *Hub) actorsOf(matches func(*kind) bool) []*actor {
	h.mu.RLock()
	defer h.mu.RUnlock()
	var out []*actor
	for _, k := range h.kinds {
		if matches(k) {
			out = slices.AppendSeq(out, maps.Values(k.actors))
		}
	}
	return out
}
