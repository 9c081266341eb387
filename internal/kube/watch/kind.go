package watch

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kind holds the actors of one kind, and what they share.
type kind struct {
	gvk       schema.GroupVersionKind
	router    router
	compactor *compactor

	// Guarded by the hub's lock.
	actors      actorSet
	endedEvents map[string]uint64 // events of stopped actors, by class
	several     []*actor          // actors of selections by labels or namespace; replaced, never modified
	singles     map[string]int    // actors of single objects, by namespace

	// unjoinable maps namespaces whose watch was forbidden to the time of the next attempt.
	unjoinable map[string]time.Time
}

// maxSingles is how many single objects of a namespace have a watch each. Beyond it one watch of
// the namespace serves them all: a watch costs a connection's stream, a goroutine and a cache.
const maxSingles = 8

// joinRetry is how long a namespace with a forbidden watch has one for each object, unless permissions change before.
// The next reconciles that read there then try the watch again.
const joinRetry = 10 * time.Minute

func (k *kind) add(a *actor) {
	k.actors.add(a)
	switch a.selection.class() {
	case "labelled", "namespace":
		k.several = append(slices.Clip(k.several), a)
	case "one":
		ensure(&k.singles, a.selection.namespace, func() int { return 0 })
		k.singles[a.selection.namespace]++
	}
}

func (k *kind) remove(a *actor) {
	k.actors.remove(a)
	ensure(&k.endedEvents, a.selection.class(), func() uint64 { return 0 })
	k.endedEvents[a.selection.class()] += a.eventCount()
	k.several = slices.DeleteFunc(slices.Clone(k.several), func(o *actor) bool { return o == a })
	if a.selection.class() == "one" {
		if k.singles[a.selection.namespace]--; k.singles[a.selection.namespace] == 0 {
			delete(k.singles, a.selection.namespace)
		}
	}
}

// join returns the selection that serves another one: the namespace's for a single object in it, if that is watched
// already or there are many single objects. An account that is not allowed to watch the namespace has a watch for each
// object.
func (k *kind) join(s Selection) Selection {
	if s.class() != "one" || s.namespace == "" {
		return s
	}
	now, joined, singles := time.Now(), k.actors.get(InNamespace(s.namespace)), k.singles[s.namespace]
	if k.actors.get(s) == nil {
		singles++
	}
	switch {
	case joined != nil && joined.current().Reason == Forbidden:
		ensure(&k.unjoinable, s.namespace, func() time.Time { return now })
		k.unjoinable[s.namespace] = now.Add(joinRetry)
		return s
	case joined != nil, singles > maxSingles && !now.Before(k.unjoinable[s.namespace]):
		return InNamespace(s.namespace)
	}
	return s
}

// KindChange is what happened to a kind's definition.
type KindChange string

// The changes of a kind.
const (
	KindAdded   KindChange = "Added"   // it is served now, or may be
	KindUpdated KindChange = "Updated" // its versions or schema changed
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

// RecheckAccess restarts the watches of a resource, so the API server authorizes them again. An open watch continues
// after its permission was revoked, for as long as its connection lasts, and nothing would show what it misses.
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

// IsIdle reports whether the hub has no interests.
func (h *Hub) IsIdle() bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.kinds) == 0
}

func (h *Hub) actorsOf(matches func(*kind) bool) []*actor {
	h.mu.RLock()
	defer h.mu.RUnlock()
	var out []*actor
	for _, k := range h.kinds {
		if matches(k) {
			out = slices.AppendSeq(out, k.actors.each())
		}
	}
	return out
}
