package cloudcontrol

import (
	"context"
	"sync"
	"time"

	"github.com/espalier-dev/espalier/providers/aws/metrics"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// Rates of a Limiter, in calls a second. AWS does not publish its limits; about 30 a second were measured.
const (
	initialRate = 10.0
	minRate     = 0.5
	maxRate     = 25.0
	// gain is how much the rate grows in a second of full use without throttling.
	gain = 0.5
)

// Limiter limits the calls to one account and region, of all types and namespaces together. Its rate grows slowly
// and is halved when AWS throttles. When calls wait, namespaces take turns. A nil Limiter does not limit. It is safe
// for concurrent use.
type Limiter struct {
	*bucket
	// The calls take turns with namespace; empty for cluster-scoped managed resources.
	namespace string
	// maxWait is how long a call waits. Longer, it would keep a worker that other accounts need; so the managed
	// resource is reconciled again instead, after that time or the delay that AWS asks for.
	maxWait time.Duration
	// metrics count the waits; nil counts nothing.
	metrics *metrics.Metrics
}

type bucket struct {
	mu      sync.Mutex
	rate    float64
	tokens  float64
	updated time.Time
	// blocked is until when no call is made, halved when the rate was last halved.
	blocked, halved time.Time
	waiting         turns
	timer           *time.Timer

	throttled, notSent int64
}

const (
	// maxWait is the longest wait; after a restart, many managed resources wait for their first read.
	maxWait = 30 * time.Second
	// maxNamespacedWait is maxWait for ProviderConfigs: a namespace chooses their accounts, and how slow they are.
	maxNamespacedWait = 2 * time.Second
)

// NewLimiter returns a limiter. Metrics, which may be nil, count the waits.
func NewLimiter(m *metrics.Metrics) *Limiter {
	return &Limiter{metrics: m, bucket: &bucket{rate: initialRate, tokens: initialRate, updated: time.Now()}, maxWait: maxWait}
}

// For returns the same limiter for the managed resources of a namespace; of none for cluster-scoped ones.
// With ownConfig, the configuration belongs to the namespace, and its calls wait for a shorter time.
func (l *Limiter) For(namespace string, ownConfig bool) *Limiter {
	longest := maxWait
	if ownConfig {
		longest = maxNamespacedWait
	}
	return &Limiter{bucket: l.bucket, namespace: namespace, maxWait: longest, metrics: l.metrics}
}

// Wait waits until a call may be made. It returns an error if the context ends before, and an external.OpError
// with a delay if the wait would be too long.
func (l *Limiter) Wait(ctx context.Context, p priority) error {
	if err := ctx.Err(); err != nil || l == nil {
		return err
	}
	began := time.Now()
	defer func() { l.metrics.ObserveWait(p.String(), time.Since(began)) }()
	l.mu.Lock()
	if blocked := time.Until(l.blocked); blocked > l.maxWait {
		l.notSent++
		l.mu.Unlock()
		return limited(blocked)
	}
	w := &waiter{namespace: l.namespace, priority: p, ready: make(chan struct{})}
	l.waiting.push(w)
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
	l.waiting.remove(w)
	if err == nil {
		l.notSent++
		err = limited(max(l.maxWait, time.Until(l.blocked)))
	}
	return err
}

// The call would have waited too long. It was not sent.
func limited(delay time.Duration) error {
	return &external.OpError{
		Class: external.Rejected, RetryAfter: delay,
		Message: "the calls to the account and region are limited, and too many wait; this one was not sent, and is retried",
	}
}

// It sets the timer for the next call. The lock is held.
func (l *Limiter) release() {
	now := time.Now()
	l.tokens = min(max(1, l.rate), l.tokens+now.Sub(l.updated).Seconds()*l.rate)
	l.updated = now
	for !now.Before(l.blocked) && l.tokens >= 1 {
		w := l.waiting.pop()
		if w == nil {
			return
		}
		l.tokens--
		l.rate = min(maxRate, l.rate+gain/l.rate)
		close(w.ready)
	}
	if l.waiting.len() == 0 {
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

// State is what a limiter does now.
type State struct {
	// Rate is the calls a second, Waiting how many calls wait. Throttled are the calls that AWS has throttled, NotSent
	// the calls that would have waited too long.
	Rate               float64
	Waiting            int
	Throttled, NotSent int64
}

// State returns the state, for metrics.
func (l *Limiter) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return State{l.rate, l.waiting.len(), l.throttled, l.notSent}
}
