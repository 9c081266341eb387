package engine

import (
	"math/rand/v2"
	"time"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/watch"
)

// Failed work is repeated after a delay that doubles, with some jitter so that
// what failed together doesn't return together. It is never dropped.
const (
	firstDelay   = 100 * time.Millisecond
	longestDelay = 2 * time.Minute
)

// deferral is a key that is to be asked for later.
type deferral struct {
	timer    *time.Timer
	due      time.Time
	priority watch.Priority
}

// failed asks for the key again after a delay that grows with each failure, and as
// urgently as before: what was urgent still has to be done. It is left alone for so
// long at least, whatever was asked for before this failure; 0 for no such time.
func (t turn) failed(atLeast time.Duration) {
	l, it := t.lane, t.item
	l.q.mu.Lock()
	defer l.q.mu.Unlock()
	if l.refuses() {
		return
	}
	delay := min(firstDelay<<min(it.failures, 20), longestDelay)
	if it.failures == 0 {
		l.failing++
	}
	it.failures++
	delay, priority := delay/2+rand.N(delay/2+1), t.ask.priority
	if atLeast > 0 {
		delay = max(delay, atLeast+rand.N(atLeast/10+1))
		if had := it.later; had != nil {
			had.timer.Stop()
			it.later, priority = nil, max(priority, had.priority)
		}
	}
	l.postpone(it, delay, priority)
}

// succeeded forgets the failures of the key, and asks for it again after a delay,
// 0 for never, when there is nothing more urgent.
func (t turn) succeeded(after time.Duration) {
	l, it := t.lane, t.item
	l.q.mu.Lock()
	defer l.q.mu.Unlock()
	if l.refuses() {
		return
	}
	if it.failures > 0 {
		l.failing--
		it.failures = 0
	}
	if it.later != nil {
		it.later.priority = watch.Background // what was urgent is done
	}
	if after > 0 {
		l.postpone(it, after, watch.Background)
	}
}

// addAfter asks for the key to be worked on after a delay. Of several requests
// the earliest counts, and the most urgent.
func (l *lane) addAfter(key object.Key, delay time.Duration, p watch.Priority) {
	l.q.mu.Lock()
	defer l.q.mu.Unlock()
	if !l.refuses() {
		l.postpone(l.item(key), delay, p)
	}
}

func (l *lane) postpone(it *item, delay time.Duration, p watch.Priority) {
	d := &deferral{due: time.Now().Add(delay), priority: p}
	if had := it.later; had != nil {
		had.priority = max(had.priority, p)
		if !d.due.Before(had.due) {
			return
		}
		had.timer.Stop()
		d.priority = had.priority
	}
	it.later = d
	d.timer = time.AfterFunc(delay, func() {
		l.q.mu.Lock()
		defer l.q.mu.Unlock()
		if it.later == d && !l.refuses() {
			it.later = nil
			l.want(it, ask{d.priority, time.Now()})
		}
	})
}

// stopTimers ends what is to come later for items of a lane that takes no more.
func stopTimers(items map[object.Key]*item) {
	for _, it := range items {
		if it.later != nil {
			it.later.timer.Stop()
		}
	}
}
