package watch

import (
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// provisional is for how long an object that a write's answer brought is
// believed without the watch having confirmed it.
const provisional = 30 * time.Second

// store holds the objects of one selection of a kind, from two sources: the
// watch, which is complete but late, and the answers to our own writes, which
// are early. It merges them by revision, so that
//
//   - an older revision never replaces a newer one,
//   - the watch's echo of a write changes nothing,
//   - what was seen to be gone doesn't come back by an event that is on its way.
//
// Each method that changes it returns the changes, for the caller to route once
// the lock is released. Objects in it are never modified. It is safe for
// concurrent use, and holds its lock for no longer than the change takes.
type store struct {
	ownerLabel string

	mu      sync.RWMutex
	entries map[objectName]entry
	owned   owned
	seen    uint64 // everything up to this revision has come by the watch
	// complete says that a list has come, and the kind not gone since: what isn't
	// here doesn't exist.
	complete   bool
	tombstones tombstones
	gcTimer    *time.Timer  // set while there are any
	spared     []objectName // entries that a list lacked, kept for a while
	closed     bool
	// bypassed are the last states of objects that were deleted although they had
	// finalizers; see Hub.Bypassed.
	bypassed map[objectName]*unstructured.Unstructured
}

// maxBypassed bounds the objects of one kind that are remembered for it.
const maxBypassed = 256

type entry struct {
	object   *unstructured.Unstructured
	revision uint64
	own      *ownWrites // nil once the watch has delivered the entry's revision
	// orphans says that a revision of this incarnation asked for its dependents to be
	// left in place, which the garbage collector soon takes off again: others may read
	// the object too late to see it.
	orphans bool
}

// ownWrites are the writes of ours that led to an entry, and that the watch has yet to deliver.
type ownWrites struct {
	revisions []uint64
	last      time.Time
}

func (e entry) young(now time.Time) bool {
	return e.own != nil && now.Sub(e.own.last) < provisional
}

func newStore(ownerLabel string) *store {
	return &store{ownerLabel: ownerLabel, entries: map[objectName]entry{}, owned: owned{}}
}

// revisionOf returns an object's revision, 0 if it has none that we can read.
// The API documents revisions of one kind as comparable decimal integers.
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

// saw takes an object that the watch delivered.
func (s *store) saw(o *unstructured.Unstructured) []transition {
	s.mu.Lock()
	defer s.mu.Unlock()
	revision := revisionOf(o)
	s.reached(revision)
	if s.closed || s.tombstones.has(uidOf(o), revision) {
		return nil
	}
	name := nameOf(o)
	e, ok := s.entries[name]
	if ok && revision != 0 && revision <= e.revision {
		if asksToOrphan(o) && uidOf(o) == uidOf(e.object) {
			e.orphans = true
			s.entries[name] = e
		}
		return s.sawOlder(name, e, revision)
	}
	s.set(name, entry{object: o, revision: revision})
	return []transition{{was: e.object, is: o}}
}

// sawOlder takes a revision that the store is already at or past. One of ours is an echo and
// changes nothing. Any other was written between two of our writes: our answer contains that
// change, but the writer, to whom its own answers are not routed, may not have looked for it.
// So the object is routed to everybody once more.
func (s *store) sawOlder(name objectName, e entry, revision uint64) []transition {
	if e.own == nil {
		return nil
	}
	if revision == e.revision {
		e.own = nil
		s.entries[name] = e
		return nil
	}
	for _, r := range e.own.revisions {
		if r == revision {
			return nil
		}
	}
	return []transition{{was: e.object, is: e.object}}
}

// sawGone takes the watch's word that an object is deleted, or that it left the
// selection; o is its last state.
func (s *store) sawGone(o *unstructured.Unstructured) []transition {
	s.mu.Lock()
	defer s.mu.Unlock()
	revision := revisionOf(o)
	s.reached(revision)
	known := s.tombstones.remove(uidOf(o))
	name := nameOf(o)
	e, ok := s.entries[name]
	switch {
	case s.closed || !ok:
		return nil
	case e.revision > revision && revision != 0: // it is back already: we wrote it
		if known {
			return nil
		}
		return s.sawOlder(name, e, revision)
	}
	if len(o.GetFinalizers()) > 0 && o.GetDeletionTimestamp() == nil && len(s.bypassed) < maxBypassed {
		if s.bypassed == nil {
			s.bypassed = map[objectName]*unstructured.Unstructured{}
		}
		s.bypassed[name] = o
	}
	s.unset(name)
	return []transition{{was: e.object}}
}

// wrote takes the answer to one of our writes. selected tells whether the
// object still belongs to the store's selection.
func (s *store) wrote(o *unstructured.Unstructured, selected bool, now time.Time) []transition {
	s.mu.Lock()
	defer s.mu.Unlock()
	revision := revisionOf(o)
	name := nameOf(o)
	e, ok := s.entries[name]
	// What the watch is past, and doesn't hold, is gone again.
	if s.closed || revision <= s.seen || s.tombstones.has(uidOf(o), revision) {
		return nil
	}
	if revision <= e.revision {
		if e.own != nil { // an answer that another overtook; its echo is still to come
			e.own.revisions = append(e.own.revisions, revision)
		}
		return nil
	}
	if !selected {
		s.addTombstone(uidOf(o), revision, now)
		if !ok {
			return nil
		}
		s.unset(name)
		return []transition{{was: e.object}}
	}
	own := &ownWrites{last: now}
	if e.own != nil {
		own.revisions = e.own.revisions
	}
	own.revisions = append(own.revisions, revision)
	s.set(name, entry{object: o, revision: revision, own: own})
	return []transition{{was: e.object, is: o}}
}

// wroteGone takes the answer that an incarnation of an object no longer exists.
func (s *store) wroteGone(name objectName, uid string, now time.Time) []transition {
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
	return []transition{{was: e.object}}
}

// addTombstone notes that an incarnation is gone. A timer removes the tombstone, since there
// may be no later write that does.
func (s *store) addTombstone(uid string, below uint64, now time.Time) {
	s.tombstones.add(uid, below, now)
	if s.gcTimer == nil {
		s.gcTimer = time.AfterFunc(2*provisional, s.gc)
	}
}

func (s *store) gc() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gcTimer = nil
	if s.tombstones.gc(time.Now()) && !s.closed {
		s.gcTimer = time.AfterFunc(2*provisional, s.gc)
	}
}

// reached notes that the watch has delivered everything up to a revision.
func (s *store) reached(revision uint64) { s.seen = max(s.seen, revision) }

// bookmarked notes the same of a revision that no object has.
func (s *store) bookmarked(revision uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reached(revision)
}

func (s *store) set(name objectName, e entry) {
	old, ok := s.entries[name]
	e = e.after(old)
	if ok {
		s.owned.remove(labelsOf(old.object).Get(s.ownerLabel), old.object)
	}
	s.entries[name] = e
	s.owned.insert(labelsOf(e.object).Get(s.ownerLabel), e.object)
}

// after is an entry that follows another of its name, and keeps what is to be kept.
func (e entry) after(old entry) entry {
	e.orphans = asksToOrphan(e.object) || old.orphans && uidOf(old.object) == uidOf(e.object)
	return e
}

// asksToOrphan says that the object is being deleted, and its dependents are to stay.
func asksToOrphan(o *unstructured.Unstructured) bool {
	return o.GetDeletionTimestamp() != nil && slices.Contains(o.GetFinalizers(), metav1.FinalizerOrphanDependents)
}

func (s *store) unset(name objectName) {
	s.owned.remove(labelsOf(s.entries[name].object).Get(s.ownerLabel), s.entries[name].object)
	delete(s.entries, name)
}

// clear empties the store: the kind is gone, and with it what is under way.
func (s *store) clear() []transition {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := make([]transition, 0, len(s.entries))
	for _, e := range s.entries {
		gone = append(gone, transition{was: e.object})
	}
	s.entries, s.owned = map[objectName]entry{}, owned{}
	s.seen, s.tombstones, s.spared, s.complete, s.bypassed = 0, tombstones{}, nil, false, nil
	sortTransitions(gone)
	return gone
}

// close empties the store for good, whoever still writes to it.
func (s *store) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.complete = true, false
	if s.gcTimer != nil {
		s.gcTimer.Stop()
	}
	s.entries, s.owned, s.tombstones, s.spared = nil, nil, tombstones{}, nil
}
