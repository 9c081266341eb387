package inflight

import "time"

// beside is how many requests of floods may be in flight while another flow has short work. So many that they do not make
// its requests slower: on two cores one, and on a large server nearly all that may be in flight at all. It is not safe for
// concurrent use.
type beside struct {
	value int
	// raised is when the value grew last, and interval how long it stays at least.
	raised   time.Time
	interval time.Duration
	// requests of short work since the value was decided last, how long they took, and how long they take alone.
	requests    int
	took, alone time.Duration
}

const (
	// besideRequests decide the value.
	besideRequests = 16
	// minRaiseInterval is the time between two attempts with more requests. It doubles with each that fails, since short
	// work pays for them, up to maxRaiseInterval.
	minRaiseInterval, maxRaiseInterval = time.Second, time.Minute
	// tolerated is how much slower short work may get, as a multiple of its latency alone.
	tolerated = 1.25
)

func newBeside() beside { return beside{value: 1, interval: minRaiseInterval} }

// answered notes how long a request of short work took beside a flood, and how long it takes alone. Of at most limit
// requests some are not of floods.
func (b *beside) answered(now time.Time, took, alone time.Duration, limit int) {
	b.requests++
	b.took += took
	b.alone += alone
	if b.requests < besideRequests {
		return
	}
	isSlow, since := float64(b.took) > tolerated*float64(b.alone), now.Sub(b.raised)
	b.requests, b.took, b.alone = 0, 0, 0
	switch {
	case isSlow && b.value > 1:
		b.value, b.interval = b.value/2, min(2*b.interval, maxRaiseInterval)
	case isSlow:
	case since >= b.interval:
		b.value, b.raised = max(1, min(2*b.value, limit-1)), now
	case since >= minRaiseInterval && b.value > 1:
		b.interval = minRaiseInterval // the last attempt has not failed
	}
}
