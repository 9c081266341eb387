package watch

import (
	"math"
	"time"
)

// graves remember the incarnations that we know to be gone before the watch has
// said so, lest an event that was under way brings them back. They are forgotten
// once the watch says so, or after a while.
type graves struct {
	byUID map[string]grave
	dug   []string // in order of time
}

type grave struct {
	below uint64 // revisions under this one are the dead's
	at    time.Time
}

// forever marks an incarnation that no revision revives.
const forever = math.MaxUint64

func (g *graves) dig(uid string, below uint64, now time.Time) {
	g.level(now)
	if uid == "" {
		return
	}
	ensure(&g.byUID, uid, func() grave {
		g.dug = append(g.dug, uid)
		return grave{}
	})
	g.byUID[uid] = grave{below, now}
}

// level forgets the graves that have expired, and tells whether any are left.
func (g *graves) level(now time.Time) (left bool) {
	for len(g.dug) > 0 && g.expired(g.dug[0], now) {
		delete(g.byUID, g.dug[0])
		g.dug = g.dug[1:]
	}
	if len(g.dug) == 0 {
		*g = graves{} // with what it held
	}
	return len(g.dug) > 0
}

func (g *graves) covers(uid string, revision uint64) bool {
	dead, ok := g.byUID[uid]
	return ok && revision < dead.below
}

// expired is true also of graves that aren't there.
func (g *graves) expired(uid string, now time.Time) bool {
	return now.Sub(g.byUID[uid].at) >= provisional
}

// close forgets an incarnation whose end the watch delivered, and tells whether
// we knew of it.
func (g *graves) close(uid string) (known bool) {
	_, known = g.byUID[uid]
	delete(g.byUID, uid)
	return known
}
