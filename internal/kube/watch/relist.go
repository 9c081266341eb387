package watch

import (
	"cmp"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// listed takes a complete list at a revision. The list wins, also where it is
// older than what the store has (a restored backup looks like that), except over
// our own writes of the last moments that are newer than it: those it can't
// know.
//
// It wins also where an object's revision is the same: when a kind's schema
// changes, so may what an object reads as. It returns the changes, and whether
// entries were spared that expire should look at later.
func (s *store) listed(items []*unstructured.Unstructured, revision uint64, now time.Time) (changes []transition, spared bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false
	}
	before := s.entries
	s.entries = make(map[objectName]entry, len(items))
	s.spared = nil
	for _, o := range items {
		if r := revisionOf(o); !s.tombstones.has(uidOf(o), r) || s.tombstones.expired(uidOf(o), now) {
			name := nameOf(o)
			old := before[name]
			delete(before, name)
			e, change := settle(old, entry{object: o, revision: r}, revision, now)
			s.entries[name] = e.after(old)
			changes = append(changes, change...)
		}
	}
	for name, old := range before {
		if old.young(now) && old.revision > revision {
			s.entries[name] = old
			s.spared = append(s.spared, name)
			continue
		}
		changes = append(changes, transition{was: old.object})
	}
	s.owned = ownedBy(s.entries, s.ownerLabel)
	s.seen, s.complete = revision, true
	sortTransitions(changes)
	return changes, len(s.spared) > 0
}

// settle decides between an entry and the list's.
func settle(old, is entry, list uint64, now time.Time) (entry, []transition) {
	switch {
	case old.object == nil:
		return is, []transition{{is: is.object}}
	case old.young(now) && old.revision > is.revision && old.revision > list:
		// A list doesn't show what others did between our writes; see sawOlder.
		return old, []transition{{was: old.object, is: old.object}}
	case old.revision != is.revision, uidOf(old.object) != uidOf(is.object), old.own != nil:
		return is, []transition{{was: old.object, is: is.object}}
	case !reflect.DeepEqual(old.object.Object, is.object.Object):
		return is, []transition{{was: old.object, is: is.object}}
	default:
		return old, nil
	}
}

// expire drops what a list lacked and the watch hasn't confirmed since.
func (s *store) expire(now time.Time) []transition {
	s.mu.Lock()
	defer s.mu.Unlock()
	var gone []transition
	for _, name := range s.spared {
		if e, ok := s.entries[name]; ok && e.own != nil && !e.young(now) {
			s.unset(name)
			gone = append(gone, transition{was: e.object})
		}
	}
	s.spared = nil
	return gone
}

// sortTransitions makes what comes out of maps come out the same each time.
func sortTransitions(all []transition) {
	slices.SortFunc(all, func(a, b transition) int {
		return compareNames(nameOf(a.object()), nameOf(b.object()))
	})
}

func compareNames(a, b objectName) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
}
