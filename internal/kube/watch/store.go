package watch

import (
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// provisionalTTL is how long an object from the answer to a write is kept although the
// watch has not confirmed it.
const provisionalTTL = 30 * time.Second

// store holds the objects of one selection of a kind, from two sources: the watch, which is complete but late, and the
// answers to our own writes, which are early. It merges them by revision:
//
//   - an older revision never replaces a newer one,
//   - the watch's echo of a write changes nothing,
//   - an object that is gone does not come back by an event that is in flight.
//
// Each method that changes it returns the changes, for the caller to route once the lock is released. Objects in it are
// never modified. It is safe for concurrent use, and holds its lock only for the change itself.
type store struct {
	ownerLabel string

	mu               sync.RWMutex
	entries          map[objectName]entry
	owned            owned
	observedRevision uint64 // the watch has delivered everything up to it
	// complete says that a list was stored, and the kind has not gone after that: an object that is not here does not
	// exist.
	complete        bool
	tombstones      tombstones
	gcTimer         *time.Timer  // set while there are any
	missingFromList []objectName // entries that a list lacked, kept for a while
	closed          bool
	// keepIfDeletedWith selects the finalizers for deletedDespiteFinalizers; nil for none.
	keepIfDeletedWith func(finalizer string) bool
	// deletedDespiteFinalizers are the last states of objects that were deleted although they had such finalizers; see
	// Hub.DeletedDespiteFinalizers. It has no bound, because children of an object that it lacks are never deleted: the
	// reader removes each.
	deletedDespiteFinalizers map[objectName]*unstructured.Unstructured
}

type entry struct {
	object   *unstructured.Unstructured
	revision uint64
	// written is when we wrote the revision, until the watch has delivered it.
	written  time.Time
	deletion deletionHistory
}

// deletionHistory is what the watch has delivered of the deletion of an incarnation.
type deletionHistory struct {
	// wasOrphaned says that a revision had the orphan finalizer. The garbage collector soon removes it again, so a
	// reconcile may read the object too late to see it.
	wasOrphaned bool
	seen        deletionSeen
}

type deletionSeen uint8

const (
	// notSeen: it has delivered no revision in which the object is being deleted.
	notSeen deletionSeen = iota
	// seenFromStart: an event was the first of these revisions, because a watch skips none.
	seenFromStart
	// seenInList: a list had one of them. The list does not show what came before.
	seenInList
)

// delivered returns the history after a revision of the object from the watch, or, by notSeen, from the
// answer to a write of ours.
func (d deletionHistory) delivered(o *unstructured.Unstructured, by deletionSeen) deletionHistory {
	if o.GetDeletionTimestamp() == nil {
		return d
	}
	if d.seen == notSeen {
		d.seen = by
	}
	d.wasOrphaned = d.wasOrphaned || hasOrphanFinalizer(o)
	return d
}

// isOwn reports whether the revision is one that we have written and the watch has not delivered.
func (e entry) isOwn() bool { return !e.written.IsZero() }

func (e entry) isProvisional(now time.Time) bool {
	return e.isOwn() && now.Sub(e.written) < provisionalTTL
}

func newStore(ownerLabel string) *store {
	return &store{ownerLabel: ownerLabel, entries: map[objectName]entry{}, owned: owned{}}
}

// revisionOf returns an object's resource version as a number; 0 if it is none. The API
// documents resource versions of one kind as comparable decimal integers.
func revisionOf(o *unstructured.Unstructured) uint64 {
	text, _ := metadataOf(o)["resourceVersion"].(string)
	return parseRevision(text)
}

func parseRevision(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func uidOf(o *unstructured.Unstructured) string {
	uid, _ := metadataOf(o)["uid"].(string)
	return uid
}

func (s *store) observe(o *unstructured.Unstructured) []transition {
	s.mu.Lock()
	defer s.mu.Unlock()
	revision := revisionOf(o)
	s.advanceRevision(revision)
	if s.closed || s.tombstones.has(uidOf(o), revision) {
		return nil
	}
	name := nameOf(o)
	e, ok := s.entries[name]
	if ok && revision != 0 && revision <= e.revision {
		if uidOf(o) == uidOf(e.object) {
			e.deletion = e.deletion.delivered(o, seenFromStart)
			s.entries[name] = e
		}
		return s.observeOlder(name, e, revision)
	}
	s.set(name, entry{object: o, revision: revision, deletion: e.deletionOf(o).delivered(o, seenFromStart)})
	return []transition{{old: e.object, new: o, at: revision}}
}

// observeOlder handles a revision that the store already has or is past. The revision that it has is the echo of our
// write, and changes nothing. An older one may have been written by another client between two of our writes: our
// answer contains that change, but the writer, which does not get its own answers as events, might not have looked for
// it. So the object is routed to all subscribers once more.
func (s *store) observeOlder(name objectName, e entry, revision uint64) []transition {
	switch {
	case !e.isOwn():
		return nil
	case revision == e.revision:
		e.written = time.Time{}
		s.entries[name] = e
		return nil
	}
	return []transition{{old: e.object, new: e.object, at: revision}}
}

// observeDeletion handles an event of the watch that an object was deleted, or left the
// selection; o is its last state.
func (s *store) observeDeletion(o *unstructured.Unstructured) []transition {
	s.mu.Lock()
	defer s.mu.Unlock()
	revision := revisionOf(o)
	s.advanceRevision(revision)
	known := s.tombstones.remove(uidOf(o))
	name := nameOf(o)
	e, ok := s.entries[name]
	switch {
	case s.closed || !ok:
		return nil
	case e.revision > revision && revision != 0: // we have created it again
		if known {
			return nil
		}
		return s.observeOlder(name, e, revision)
	}
	if s.keepIfDeletedWith != nil && o.GetDeletionTimestamp() == nil && slices.ContainsFunc(o.GetFinalizers(), s.keepIfDeletedWith) {
		if s.deletedDespiteFinalizers == nil {
			s.deletedDespiteFinalizers = map[objectName]*unstructured.Unstructured{}
		}
		s.deletedDespiteFinalizers[name] = o
	}
	s.unset(name)
	return []transition{{old: e.object, at: Gone}}
}

// selected reports whether the object is still in the store's selection.
func (s *store) recordWrite(o *unstructured.Unstructured, selected bool, now time.Time) []transition {
	s.mu.Lock()
	defer s.mu.Unlock()
	revision := revisionOf(o)
	name := nameOf(o)
	e, ok := s.entries[name]
	// If the watch is past the revision and has no such object, it is gone again.
	if s.closed || revision <= s.observedRevision || s.tombstones.has(uidOf(o), revision) {
		return nil
	}
	if revision <= e.revision {
		return nil // a later answer came first
	}
	if !selected {
		s.addTombstone(uidOf(o), revision, now)
		if !ok {
			return nil
		}
		s.unset(name)
		return []transition{{old: e.object}}
	}
	s.set(name, entry{object: o, revision: revision, written: now, deletion: e.deletionOf(o).delivered(o, notSeen)})
	return []transition{{old: e.object, new: o}}
}

func (s *store) recordDeletion(name objectName, uid string, now time.Time) []transition {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.addTombstone(uid, forever, now)
	e, ok := s.entries[name]
	if !ok || uidOf(e.object) != uid {
		return nil
	}
	s.unset(name)
	return []transition{{old: e.object}}
}

// A timer removes the tombstone, because there may be no later write that does.
func (s *store) addTombstone(uid string, below uint64, now time.Time) {
	s.tombstones.add(uid, below, now)
	if s.gcTimer == nil {
		s.gcTimer = time.AfterFunc(2*provisionalTTL, s.gc)
	}
}

func (s *store) gc() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gcTimer = nil
	if s.tombstones.gc(time.Now()) && !s.closed {
		s.gcTimer = time.AfterFunc(2*provisionalTTL, s.gc)
	}
}

func (s *store) advanceRevision(revision uint64) {
	s.observedRevision = max(s.observedRevision, revision)
}

// recordBookmark handles a bookmark event of the watch: a revision without an object.
func (s *store) recordBookmark(revision uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advanceRevision(revision)
}

func (s *store) set(name objectName, e entry) {
	if old, ok := s.entries[name]; ok {
		s.owned.remove(labelsOf(old.object).Get(s.ownerLabel), old.object)
	}
	s.entries[name] = e
	s.owned.insert(labelsOf(e.object).Get(s.ownerLabel), e.object)
}

// It is the entry's, if the object is the same incarnation.
func (e entry) deletionOf(next *unstructured.Unstructured) deletionHistory {
	if e.object == nil || uidOf(e.object) != uidOf(next) {
		return deletionHistory{}
	}
	return e.deletion
}

// hasOrphanFinalizer says that the object is being deleted and its dependents are to be
// orphaned.
func hasOrphanFinalizer(o *unstructured.Unstructured) bool {
	return o.GetDeletionTimestamp() != nil && slices.Contains(o.GetFinalizers(), metav1.FinalizerOrphanDependents)
}

func (s *store) unset(name objectName) {
	s.owned.remove(labelsOf(s.entries[name].object).Get(s.ownerLabel), s.entries[name].object)
	delete(s.entries, name)
}

// clear empties the store, including pending writes: the kind is gone.
func (s *store) clear() []transition {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := make([]transition, 0, len(s.entries))
	for _, e := range s.entries {
		gone = append(gone, transition{old: e.object})
	}
	s.entries, s.owned = map[objectName]entry{}, owned{}
	s.observedRevision, s.tombstones, s.missingFromList, s.complete, s.deletedDespiteFinalizers = 0, tombstones{}, nil, false, nil
	sortTransitions(gone)
	return gone
}

// close empties the store for good; later writes have no effect.
func (s *store) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.complete = true, false
	if s.gcTimer != nil {
		s.gcTimer.Stop()
	}
	s.entries, s.owned, s.tombstones, s.missingFromList = nil, nil, tombstones{}, nil
}
