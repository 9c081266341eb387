package watch

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	firstRetry = time.Second
	lastRetry  = time.Minute

	// promptRetry is the first delay after a change of the kind: a definition is
	// established a moment before the API server serves its kind.
	promptRetry = 100 * time.Millisecond
)

// backoff paces attempts: 1 s, 2 s, 4 s … 1 min, with up to 50 % jitter: kinds that failed together do not retry
// together.
type backoff struct {
	delay    time.Duration
	wasBrief bool // the last attempt was in sync, for a short time
}

func (b *backoff) next(random float64) time.Duration {
	d := b.delay
	if d == 0 {
		d = firstRetry
	}
	b.delay = min(2*d, lastRetry)
	return min(d+time.Duration(random*float64(d)/2), lastRetry)
}

func (b *backoff) reset() { b.delay = 0 }

// steadyAfter is how long an attempt must have been in sync for the next to follow at once.
const steadyAfter = 5 * time.Second

// recordAttempt records how an attempt went. One that was in sync for a while is resumed
// soon. One that breaks right after it was in sync, a watch that a proxy cuts off for
// example, lists everything each time; it backs off like a failure, from the first delay
// on.
func (b *backoff) recordAttempt(synced time.Duration, wasSynced bool) {
	switch {
	case wasSynced && synced >= steadyAfter:
		b.retrySoon()
		b.wasBrief = false
	case wasSynced && !b.wasBrief:
		b.reset()
		b.wasBrief = true
	case !wasSynced:
		b.wasBrief = false
	}
}

func (b *backoff) retrySoon() { b.delay = promptRetry }

// A retryNow makes the next attempt due at once.
func (b *backoff) pause(ctx context.Context, retryNow <-chan struct{}) {
	due := time.NewTimer(b.next(rand.Float64()))
	defer due.Stop()
	select {
	case <-ctx.Done():
	case <-due.C:
	case <-retryNow:
		b.retrySoon()
	}
}
