package watch

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/object"
)

func (s *store) get(name objectName) (*unstructured.Unstructured, bool) {
	s.mu.RLock()
	e, ok := s.entries[name]
	s.mu.RUnlock()
	return e.object, ok
}

// complete reports whether these are all.
func (s *store) ownedBy(owner string) (objects []*unstructured.Unstructured, complete bool) {
	s.mu.RLock()
	objects, complete = slices.Clone(s.owned[owner]), s.complete
	s.mu.RUnlock()
	return objects, complete
}

// The objects are sorted by namespace and name. complete reports whether these are all.
func (s *store) list(matches func(identity) bool) (objects []*unstructured.Unstructured, complete bool) {
	s.mu.RLock()
	for _, e := range s.entries {
		if matches(identityOf(e.object)) {
			objects = append(objects, e.object)
		}
	}
	complete = s.complete
	s.mu.RUnlock()
	slices.SortFunc(objects, compareObjects)
	return objects, complete
}

// They are in no order.
func (s *store) keys(of schema.GroupKind) []object.Key {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]object.Key, 0, len(s.entries))
	for name := range s.entries {
		out = append(out, object.Key{Group: of.Group, Kind: of.Kind, Namespace: name.namespace, Name: name.name})
	}
	return out
}

// getWithComplete returns an object, nil if the store has none, and whether the store is
// complete: then the object does not exist either.
func (s *store) getWithComplete(name objectName) (object *unstructured.Unstructured, complete bool) {
	s.mu.RLock()
	object, complete = s.entries[name].object, s.complete
	s.mu.RUnlock()
	return object, complete
}

// known reports whether that can be determined.
func (s *store) wasOrphaned(name objectName, uid string) (orphaned, known bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e, ok := s.entries[name]
	if !ok || uidOf(e.object) != uid {
		return false, false
	}
	return e.deletion.wasOrphaned, e.deletion.wasOrphaned || e.deletion.seen == seenFromStart
}

func (s *store) len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.entries)
}

func (s *store) getDeletedDespiteFinalizers(name objectName) *unstructured.Unstructured {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.deletedDespiteFinalizers[name]
}

func (s *store) forgetDeletedDespiteFinalizers(name objectName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.deletedDespiteFinalizers, name)
}
