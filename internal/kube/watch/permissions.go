package watch

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/object"
)

// permissionWatcher watches the kinds that grant permissions while a watch is forbidden, so the watch retries as soon
// as the missing role comes, without waiting for its backoff.
type permissionWatcher struct {
	hub *Hub

	mu      sync.Mutex // held while the hub's lock, or its PermissionsHub's, is taken; never the other way round
	count   int        // of forbidden watches
	watches []*KindWatch
}

// addForbidden counts forbidden watches. The watches of the permission kinds do not count:
// they would keep themselves open.
func (r *permissionWatcher) addForbidden(kind schema.GroupVersionKind, by int) {
	hub := r.hub.env.PermissionsHub
	if hub == nil {
		hub = r.hub
	}
	if hub == r.hub && slices.Contains(r.hub.env.PermissionKinds, kind) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count += by
	switch {
	case r.count > 0 && r.watches == nil:
		for _, gvk := range r.hub.env.PermissionKinds {
			r.watches = append(r.watches, hub.WatchKind(gvk, r.changed))
		}
	case r.count == 0:
		for _, w := range r.watches {
			w.Stop()
		}
		r.watches = nil
	}
}

// It makes the hub try again to watch namespaces whose watch was forbidden.
func (h *Hub) forgetUnjoinable() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range h.kinds {
		k.unjoinable = nil
	}
}

// It ignores objects that existed when the watches were refused.
func (r *permissionWatcher) changed(key object.Key, c Cause) {
	if key.Name == "" || c.Priority == Background {
		return
	}
	r.hub.RetryForbidden()
}

// RetryForbidden makes forbidden watches retry at once: permissions may have been granted.
func (h *Hub) RetryForbidden() {
	h.forgetUnjoinable()
	for _, a := range h.actorsOf(func(*kind) bool { return true }) {
		if a.current().Reason == Forbidden {
			a.kindChanged(KindAdded)
		}
	}
}
