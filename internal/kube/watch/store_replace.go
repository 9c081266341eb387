package watch

import (
	"cmp"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// replace stores a complete list at a revision. The list wins, also if it is older than the
// store, which is how a restored backup looks. The exception are our own recent writes that
// are newer than the list, which it cannot contain.
//
// The list wins also if an object's revision is the same: when a kind's schema changes, an
// object may read differently. It returns the changes, and whether it kept entries that
// are missing from the list, which expire has to check later.
func (s *store) replace(items []*unstructured.Unstructured, revision uint64, now time.Time) (changes []transition, keptMissing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false
	}
	before := s.entries
	s.entries = make(map[objectName]entry, len(items))
	s.missingFromList = nil
	for _, o := range items {
		if r := revisionOf(o); !s.tombstones.has(uidOf(o), r) || s.tombstones.expired(uidOf(o), now) {
			name := nameOf(o)
			old := before[name]
			delete(before, name)
			e, change := mergeListed(old, entry{object: o, revision: r}, revision, now)
			e.deletion = old.deletionAfterList(e.object, o)
			s.entries[name] = e
			changes = append(changes, change...)
		}
	}
	for name, old := range before {
		if old.isProvisional(now) && old.revision > revision {
			s.entries[name] = old
			s.missingFromList = append(s.missingFromList, name)
			continue
		}
		changes = append(changes, transition{old: old.object})
	}
	s.owned = ownedBy(s.entries, s.ownerLabel)
	s.observedRevision, s.complete = revision, true
	sortTransitions(changes)
	return changes, len(s.missingFromList) > 0
}

func mergeListed(old, listed entry, listRevision uint64, now time.Time) (entry, []transition) {
	switch {
	case old.object == nil:
		return listed, []transition{{new: listed.object}}
	case old.isProvisional(now) && old.revision > listed.revision && old.revision > listRevision:
		// A list does not show the writes of other clients between ours; see observeOlder.
		return old, []transition{{old: old.object, new: old.object}}
	case old.revision != listed.revision, uidOf(old.object) != uidOf(listed.object), old.isOwn():
		return listed, []transition{{old: old.object, new: listed.object}}
	case !reflect.DeepEqual(old.object.Object, listed.object.Object):
		return listed, []transition{{old: old.object, new: listed.object}}
	default:
		return old, nil
	}
}

// deletionAfterList returns the history of the object that is kept, after a list had the listed one.
// An object that is no longer being deleted is one of a restored backup.
func (e entry) deletionAfterList(kept, listed *unstructured.Unstructured) deletionHistory {
	switch {
	case kept.GetDeletionTimestamp() == nil:
		return deletionHistory{}
	case uidOf(kept) != uidOf(listed):
		return e.deletionOf(kept)
	}
	return e.deletionOf(kept).delivered(listed, seenInList)
}

// expire removes entries that a list lacked and the watch has not confirmed after that.
func (s *store) expire(now time.Time) []transition {
	s.mu.Lock()
	defer s.mu.Unlock()
	var gone []transition
	for _, name := range s.missingFromList {
		if e, ok := s.entries[name]; ok && e.isOwn() && !e.isProvisional(now) {
			s.unset(name)
			gone = append(gone, transition{old: e.object})
		}
	}
	s.missingFromList = nil
	return gone
}

// sortTransitions gives changes that come out of maps a stable order.
func sortTransitions(all []transition) {
	slices.SortFunc(all, func(a, b transition) int {
		return compareNames(nameOf(a.object()), nameOf(b.object()))
	})
}

func compareNames(a, b objectName) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
}
