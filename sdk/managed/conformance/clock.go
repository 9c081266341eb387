package conformance

import (
	"context"
	"sync"
	"time"
)

// Clock is a fake clock, which only Advance moves.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that shows a fixed time.
func NewClock() *Clock {
	return &Clock{now: time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)}
}

// Now returns the time that the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock forward.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (c *Clock) wait(_ context.Context, d, _ time.Duration) { c.Advance(d) }

// timeSource is the time of the runtime under test.
type timeSource interface {
	Now() time.Time
	// wait advances the time by d. The external API needs at most settle of real time to show
	// its changes.
	wait(ctx context.Context, d, settle time.Duration)
}

// fastClock is real time that skips ahead: of each wait, it only sleeps as long as the external
// API needs.
type fastClock struct{ ahead time.Duration }

// Now returns the real time and all that was skipped.
func (c *fastClock) Now() time.Time { return time.Now().Add(c.ahead) }

// minSleep is how long a wait sleeps at least, if the external API is consistent.
const minSleep = 20 * time.Millisecond

func (c *fastClock) wait(ctx context.Context, d, settle time.Duration) {
	sleep := min(d, max(settle, minSleep))
	timer := time.NewTimer(sleep)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	c.ahead += d - sleep
}
