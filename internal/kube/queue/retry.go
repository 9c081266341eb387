package queue

import (
	"math/rand/v2"
	"time"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/tracing"
)

// A failed key is retried after a delay that doubles, with jitter: keys that failed together are not retried together.
// It is never dropped.
const (
	firstDelay   = 100 * time.Millisecond
	longestDelay = 2 * time.Minute
)

// maxTracedRetries is how many retries belong to the trace of the event that the first reconcile had. A key may fail
// forever, and a trace must not.
const maxTracedRetries = 5

// delayedRequest is a key to request later.
type delayedRequest struct {
	timer    *time.Timer
	due      time.Time
	priority watch.Priority
	causes   *tracing.Causes
}

// AddRateLimited requests the key again after a delay that grows with each failure, with the priority that it had: what was
// urgent still has to be done. The delay is at least atLeast, unless that is 0; an earlier delayed request waits as long.
func (w work) AddRateLimited(atLeast time.Duration) {
	k, it := w.queue, w.item
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	delay := min(firstDelay<<min(it.failures, 20), longestDelay)
	if it.failures == 0 {
		k.failing++
	}
	it.failures++
	delay, priority := delay/2+rand.N(delay/2+1), w.request.priority
	var causes *tracing.Causes
	if it.failures <= maxTracedRetries {
		causes = w.request.causes
	}
	if atLeast > 0 {
		delay = max(delay, atLeast+rand.N(atLeast/10+1))
		if had := it.delayed; had != nil {
			had.timer.Stop()
			it.delayed, priority = nil, max(priority, had.priority)
		}
	}
	k.delay(it, delay, delayedRequest{priority: priority, causes: causes})
}

// Forget forgets the failures of the key. Its delayed request loses its priority: what was urgent is done.
func (w work) Forget() {
	k, it := w.queue, w.item
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	if it.failures > 0 {
		k.failing--
		it.failures = 0
	}
	if it.delayed != nil {
		it.delayed.priority, it.delayed.causes = watch.Background, nil
	}
}

// AddAfter requests the key after a delay. Of several requests the earliest time and the highest priority count.
func (k *kindQueue) AddAfter(key object.Key, delay time.Duration, p watch.Priority, causes *tracing.Causes) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.closed {
		k.delay(k.item(key), delay, delayedRequest{priority: p, causes: causes})
	}
}

// It advances a request that is delayed already.
func (k *kindQueue) delay(it *item, delay time.Duration, requested delayedRequest) {
	d := &requested
	d.due = time.Now().Add(delay)
	if had := it.delayed; had != nil {
		had.priority, had.causes = max(had.priority, d.priority), had.causes.And(d.causes)
		if !d.due.Before(had.due) {
			return
		}
		had.timer.Stop()
		d.priority, d.causes = had.priority, had.causes
	}
	it.delayed = d
	d.timer = time.AfterFunc(delay, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if it.delayed == d && !k.closed {
			it.delayed = nil
			k.request(it, request{priority: d.priority, since: time.Now(), causes: d.causes})
		}
	})
}
