package watch

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func (s *store) get(name objectName) (*unstructured.Unstructured, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e, ok := s.entries[name]
	return e.object, ok
}

// ownedBy returns the objects of an owner, and whether these are all.
func (s *store) ownedBy(owner string) (objects []*unstructured.Unstructured, complete bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.owned[owner]), s.complete
}

// list returns the objects that pass, sorted by namespace and name, and whether
// these are all.
func (s *store) list(pass func(place) bool) (objects []*unstructured.Unstructured, complete bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []*unstructured.Unstructured
	for _, e := range s.entries {
		if pass(placeOf(e.object)) {
			out = append(out, e.object)
		}
	}
	slices.SortFunc(out, compareObjects)
	return out, s.complete
}

// look returns an object, and whether the answer that there is none would be
// final.
func (s *store) look(name objectName) (object *unstructured.Unstructured, complete bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.entries[name].object, s.complete
}

func (s *store) orphans(name objectName, uid string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e, ok := s.entries[name]
	return ok && e.orphans && uidOf(e.object) == uid
}

func (s *store) len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.entries)
}

// lastOf is the last state of an object that was deleted although it had finalizers.
func (s *store) lastOf(name objectName) *unstructured.Unstructured {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.bypassed[name]
}

func (s *store) forgetLastOf(name objectName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.bypassed, name)
}
