package watch

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	firstRetry = time.Second
	lastRetry  = time.Minute

	// promptRetry comes first after news of the kind: a new kind's definition is
	// established a moment before the API server serves it.
	promptRetry = 100 * time.Millisecond
)

// backoff paces attempts: 1 s, 2 s, 4 s … 1 min, each up to half as long again
// so that kinds that failed together don't retry together.
type backoff struct {
	delay time.Duration
	brief bool // the last attempt went well, and not for long
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

// steady is for how long an attempt must have gone well to be begun anew at once.
const steady = 5 * time.Second

// after takes note of how an attempt went. One that went well for a while is
// resumed soon. One that goes well and breaks at once, a watch through a proxy that
// cuts it off say, lists everything each time, and so backs off like a failure,
// from where healthy attempts begin.
func (b *backoff) after(while time.Duration, well bool) {
	switch {
	case well && while >= steady:
		b.prompt()
		b.brief = false
	case well && !b.brief:
		b.reset()
		b.brief = true
	case !well:
		b.brief = false
	}
}

// prompt makes the next attempt soon.
func (b *backoff) prompt() { b.delay = promptRetry }

// pause waits for the next attempt, which a poke makes due at once.
func (b *backoff) pause(ctx context.Context, poke <-chan struct{}) {
	due := time.NewTimer(b.next(rand.Float64()))
	defer due.Stop()
	select {
	case <-ctx.Done():
	case <-due.C:
	case <-poke:
		b.prompt()
	}
}
