package cloudcontrol

import (
	"context"
	"sync"
	"time"

	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// priority is who goes first when calls wait.
type priority int

const (
	writes priority = iota
	reads
)

// Rates of a Limiter, in calls a second. AWS does not publish its limits; about 30 a second were measured.
const (
	initialRate = 10.0
	minRate     = 0.5
	maxRate     = 25.0
	// gain is how much the rate grows in a second of full use without throttling.
	gain = 0.5
	// reserved is after how many writes in a row a waiting read goes first.
	reserved = 3
)

// Limiter limits the calls to one account and region, of all types together. Its rate grows slowly and is
// halved when AWS throttles. Calls that change something go before those that read, but not without end. A nil
// Limiter does not limit. It is safe for concurrent use.
type Limiter struct {
	*bucket
	// maxWait is how long a call waits. Longer, it would keep a worker that other accounts need; so the managed
	// resource is reconciled again instead, after that time or the delay that AWS asks for.
	maxWait time.Duration
}

// bucket is the state of a Limiter.
type bucket struct {
	mu      sync.Mutex
	rate    float64
	tokens  float64
	updated time.Time
	// blocked is until when no call is made, halved when the rate was last halved.
	blocked, halved time.Time
	waiting         [2][]*waiter
	// inRow counts the writes since a read.
	inRow int
	timer *time.Timer

	calls, throttled int64
}

type waiter struct {
	ready chan struct{}
	gone  bool
}

const (
	// maxWait is the longest wait; after a restart, many managed resources wait for their first read.
	maxWait = 30 * time.Second
	// maxNamespacedWait is that for the configurations of namespaces, which have their own rates.
	maxNamespacedWait = 2 * time.Second
)

// NewLimiter returns a limiter.
func NewLimiter() *Limiter {
	return &Limiter{&bucket{rate: initialRate, tokens: initialRate, updated: time.Now()}, maxWait}
}

// ForNamespace returns the same limiter with the shorter wait of a configuration of a namespace.
func (l *Limiter) ForNamespace() *Limiter { return &Limiter{l.bucket, maxNamespacedWait} }

// Wait waits until a call may be made. It returns an error if the context ends before, and an external.OpError
// with a delay if the wait would be too long.
func (l *Limiter) Wait(ctx context.Context, p priority) error {
	if err := ctx.Err(); err != nil || l == nil {
		return err
	}
	l.mu.Lock()
	if blocked := time.Until(l.blocked); blocked > l.maxWait {
		l.mu.Unlock()
		return limited(blocked)
	}
	w := &waiter{ready: make(chan struct{})}
	l.waiting[p] = append(l.waiting[p], w)
	l.release()
	l.mu.Unlock()
	timeout := time.NewTimer(l.maxWait)
	defer timeout.Stop()
	var err error
	select {
	case <-w.ready:
		return nil
	case <-timeout.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-w.ready:
		return nil // it was released at the same time
	default:
	}
	w.gone = true
	if err == nil {
		err = limited(max(l.maxWait, time.Until(l.blocked)))
	}
	return err
}

// limited is the error of a call that would have waited too long. It was not sent.
func limited(delay time.Duration) error {
	return &external.OpError{
		Class: external.Rejected, RetryAfter: delay,
		Message: "the calls to the account and region are limited, and too many wait; this one was not sent, and is retried",
	}
}

// release lets calls go that may be made now, and sets the timer for the next one. The lock is held.
func (l *Limiter) release() {
	now := time.Now()
	l.tokens = min(max(1, l.rate), l.tokens+now.Sub(l.updated).Seconds()*l.rate)
	l.updated = now
	for !now.Before(l.blocked) && l.tokens >= 1 {
		w := l.next()
		if w == nil {
			return
		}
		l.tokens--
		l.calls++
		l.rate = min(maxRate, l.rate+gain/l.rate)
		close(w.ready)
	}
	if len(l.waiting[writes])+len(l.waiting[reads]) == 0 {
		return
	}
	delay := time.Duration((1 - l.tokens) / l.rate * float64(time.Second))
	delay = max(delay, l.blocked.Sub(now), time.Millisecond)
	if l.timer != nil {
		l.timer.Stop()
	}
	l.timer = time.AfterFunc(delay, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.release()
	})
}

// next takes the waiter that goes first; nil without one.
func (l *Limiter) next() *waiter {
	for p := range l.waiting {
		for len(l.waiting[p]) > 0 && l.waiting[p][0].gone {
			l.waiting[p] = l.waiting[p][1:]
		}
	}
	p := writes
	if len(l.waiting[writes]) == 0 || len(l.waiting[reads]) > 0 && l.inRow >= reserved {
		p = reads
	}
	if len(l.waiting[p]) == 0 {
		return nil
	}
	if l.inRow++; p == reads {
		l.inRow = 0
	}
	w := l.waiting[p][0]
	l.waiting[p] = l.waiting[p][1:]
	return w
}

// maxBlocked bounds the delay that AWS asks for.
const maxBlocked = time.Minute

// Report tells the limiter how a call has ended.
func (l *Limiter) Report(err error) {
	if l == nil || !isThrottled(err) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.throttled++
	if now.Sub(l.halved) >= time.Second { // several answers at once are one event
		l.rate, l.halved = max(minRate, l.rate/2), now
		l.tokens = min(l.tokens, 0)
	}
	if until := now.Add(min(maxBlocked, retryAfter(err))); until.After(l.blocked) {
		l.blocked = until
	}
}

// Limits is the state of a limiter.
type Limits struct {
	// Rate is the calls a second, Waiting how many calls wait. Calls and Throttled count calls.
	Rate             float64
	Waiting          int
	Calls, Throttled int64
}

// State returns the state, for metrics.
func (l *Limiter) State() Limits {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Limits{l.rate, len(l.waiting[writes]) + len(l.waiting[reads]), l.calls, l.throttled}
}
