package watch

import (
	"math"
	"time"
)

// tombstones are the incarnations that are known to be gone before the watch has delivered their deletion, so an event
// in flight does not bring them back. They are removed once the watch delivers it, or after provisionalTTL.
type tombstones struct {
	byUID map[string]tombstone
	uids  []string // in order of time
}

type tombstone struct {
	below uint64 // revisions under this one are of the incarnation that is gone
	at    time.Time
}

// No revision revives such an incarnation.
const forever = math.MaxUint64

func (t *tombstones) add(uid string, below uint64, now time.Time) {
	t.gc(now)
	if uid == "" {
		return
	}
	ensure(&t.byUID, uid, func() tombstone {
		t.uids = append(t.uids, uid)
		return tombstone{}
	})
	t.byUID[uid] = tombstone{below, now}
}

// It returns whether any are left.
func (t *tombstones) gc(now time.Time) (left bool) {
	for len(t.uids) > 0 && t.expired(t.uids[0], now) {
		delete(t.byUID, t.uids[0])
		t.uids = t.uids[1:]
	}
	if len(t.uids) == 0 {
		*t = tombstones{} // with its memory
	}
	return len(t.uids) > 0
}

func (t *tombstones) has(uid string, revision uint64) bool {
	gone, ok := t.byUID[uid]
	return ok && revision < gone.below
}

// A tombstone that does not exist has expired.
func (t *tombstones) expired(uid string, now time.Time) bool {
	return now.Sub(t.byUID[uid].at) >= provisionalTTL
}

// The watch has delivered the deletion. It returns whether there was a tombstone.
func (t *tombstones) remove(uid string) (known bool) {
	_, known = t.byUID[uid]
	delete(t.byUID, uid)
	return known
}
