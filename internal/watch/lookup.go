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

func (s *store) ownedBy(owner string) []*unstructured.Unstructured {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.owned[owner])
}

// list returns the objects that pass, sorted by namespace and name.
func (s *store) list(pass func(place) bool) []*unstructured.Unstructured {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []*unstructured.Unstructured
	for _, e := range s.entries {
		if pass(placeOf(e.object)) {
			out = append(out, e.object)
		}
	}
	slices.SortFunc(out, compareObjects)
	return out
}

func (s *store) len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.entries)
}
