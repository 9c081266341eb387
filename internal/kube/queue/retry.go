package queue

import (
	"math/rand/v2"
	"time"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

// A failed item is retried after a delay that doubles, with jitter so that items
// that failed together do not return together. It is never dropped.
const (
	firstDelay   = 100 * time.Millisecond
	longestDelay = 2 * time.Minute
)

// delayedRequest is a key to request later.
type delayedRequest struct {
	timer    *time.Timer
	due      time.Time
	priority watch.Priority
}

// AddRateLimited requests the key again after a delay that grows with each failure, with the priority that it had: what was
// urgent still has to be done. The delay is at least atLeast, whatever was requested before this failure; 0 for no bound.
func (t work) AddRateLimited(atLeast time.Duration) {
	l, it := t.kind, t.item
	l.parent.mu.Lock()
	defer l.parent.mu.Unlock()
	if l.isClosed() {
		return
	}
	delay := min(firstDelay<<min(it.failures, 20), longestDelay)
	if it.failures == 0 {
		l.failing++
	}
	it.failures++
	delay, priority := delay/2+rand.N(delay/2+1), t.request.priority
	if atLeast > 0 {
		delay = max(delay, atLeast+rand.N(atLeast/10+1))
		if had := it.delayed; had != nil {
			had.timer.Stop()
			it.delayed, priority = nil, max(priority, had.priority)
		}
	}
	l.delay(it, delay, priority)
}

// Forget forgets the failures of the key, and requests it again after a delay, 0 for never, when there is nothing more
// urgent.
func (t work) Forget(after time.Duration) {
	l, it := t.kind, t.item
	l.parent.mu.Lock()
	defer l.parent.mu.Unlock()
	if l.isClosed() {
		return
	}
	if it.failures > 0 {
		l.failing--
		it.failures = 0
	}
	if it.delayed != nil {
		it.delayed.priority = watch.Background // what was urgent is done
	}
	if after > 0 {
		l.delay(it, after, watch.Background)
	}
}

// AddAfter requests the key after a delay. Of several requests the earliest time and the highest priority count.
func (l *kindQueue) AddAfter(key object.Key, delay time.Duration, p watch.Priority) {
	l.parent.mu.Lock()
	defer l.parent.mu.Unlock()
	if !l.isClosed() {
		l.delay(l.item(key), delay, p)
	}
}

func (l *kindQueue) delay(it *item, delay time.Duration, p watch.Priority) {
	d := &delayedRequest{due: time.Now().Add(delay), priority: p}
	if had := it.delayed; had != nil {
		had.priority = max(had.priority, p)
		if !d.due.Before(had.due) {
			return
		}
		had.timer.Stop()
		d.priority = had.priority
	}
	it.delayed = d
	d.timer = time.AfterFunc(delay, func() {
		l.parent.mu.Lock()
		defer l.parent.mu.Unlock()
		if it.delayed == d && !l.isClosed() {
			it.delayed = nil
			l.request(it, request{d.priority, time.Now()})
		}
	})
}

// stopTimers stops the delayed requests of a queue that takes no more.
func stopTimers(items map[object.Key]*item) {
	for _, it := range items {
		if it.delayed != nil {
			it.delayed.timer.Stop()
		}
	}
}
