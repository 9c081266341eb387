package watch

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/object"
)

// rights watches what grants rights, for as long as a watch is forbidden: the
// role that it lacks may come at any time, and nobody should have to wait for a
// back-off then.
type rights struct {
	hub *Hub

	mu       sync.Mutex // held while taking the hub's lock, or its teller's, never the other way round
	count    int        // of forbidden watches
	servings []*Serving
}

// barred counts forbidden watches. The rights' own watches don't count: they
// would keep themselves open.
func (r *rights) barred(kind schema.GroupVersionKind, by int) {
	teller := r.hub.world.Teller
	if teller == nil {
		teller = r.hub
	}
	if teller == r.hub && slices.Contains(r.hub.world.Rights, kind) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count += by
	switch {
	case r.count > 0 && r.servings == nil:
		for _, gvk := range r.hub.world.Rights {
			r.servings = append(r.servings, teller.Serve(gvk, r.changed))
		}
	case r.count == 0:
		for _, s := range r.servings {
			s.Stop()
		}
		r.servings = nil
	}
}

// changed makes forbidden watches try again, unless it is told of what was there
// when they were refused.
func (r *rights) changed(key object.Key, c Cause) {
	if key.Name == "" || c.Priority == Background {
		return
	}
	for _, a := range r.hub.actorsOf(func(*kind) bool { return true }) {
		if a.current().Reason == Forbidden {
			a.kindChanged(KindAdded)
		}
	}
}
