package watch

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// KindStats describes one watch, for a table or a metric.
type KindStats struct {
	Kind             schema.GroupVersionKind
	Selection        string // as Selection.String renders it
	Class            string // all, managed, one, labelled or namespace
	ImpersonatedUser string // empty for this program's own permissions
	State            State
	Subscribers      int    // instances and KindWatches
	Objects          int    // in the store
	Events           uint64 // changes since it began
	Age              time.Duration
}

// Stats returns all watches, sorted by kind and selection, including those without
// subscribers that are in their grace period.
func (h *Hub) Stats() []KindStats {
	now := time.Now()
	all := h.actorsOf(func(*kind) bool { return true })
	out := make([]KindStats, 0, len(all))
	for _, a := range all {
		out = append(out, a.stats(now))
	}
	slices.SortFunc(out, func(a, b KindStats) int {
		return cmp.Or(
			cmp.Compare(a.Kind.Group, b.Kind.Group), cmp.Compare(a.Kind.Kind, b.Kind.Kind),
			cmp.Compare(a.Kind.Version, b.Kind.Version), cmp.Compare(a.Selection, b.Selection))
	})
	return out
}

func (h *Hub) endedEvents() map[series]uint64 {
	h.mu.RLock()
	defer h.mu.RUnlock()
	out := map[series]uint64{}
	for gvk, k := range h.kinds {
		for class, events := range k.endedEvents {
			out[series{gvk.Group, gvk.Version, gvk.Kind, class}] = events
		}
	}
	return out
}

func (a *actor) stats(now time.Time) KindStats {
	objects := a.store.len()
	a.mu.Lock()
	defer a.mu.Unlock()
	return KindStats{
		Kind: a.gvk, Selection: a.selection.String(), Class: a.selection.class(), ImpersonatedUser: a.env.ImpersonatedUser,
		State: a.state, Objects: objects, Events: a.events, Age: now.Sub(a.createdAt),
		Subscribers: a.subscribers.len() + len(a.watchers),
	}
}
