package conformance

import (
	"context"
	"sync"
	"time"
)

// Clock is a time that is made up: it goes on only when the kit lets it.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock is a clock that shows some time.
func NewClock() *Clock {
	return &Clock{now: time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)}
}

// Now is what the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance lets time go by.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (c *Clock) wait(_ context.Context, d, _ time.Duration) { c.Advance(d) }

// passage is how time goes by.
type passage interface {
	Now() time.Time
	// wait lets it be so much later. The external API needs no more than settle to show
	// what has happened.
	wait(ctx context.Context, d, settle time.Duration)
}

// hurry is real time that the runtime believes to pass faster: of its waits no more is
// waited than the external API needs.
type hurry struct{ ahead time.Duration }

// Now is later than it is.
func (h *hurry) Now() time.Time { return time.Now().Add(h.ahead) }

// moment is for how long a wait lasts that the external API may not need.
const moment = 20 * time.Millisecond

func (h *hurry) wait(ctx context.Context, d, settle time.Duration) {
	really := min(d, max(settle, moment))
	timer := time.NewTimer(really)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	h.ahead += d - really
}
