// Package tally says when a count that goes down deserves to be told: each telling is a
// write.
package tally

import "time"

// Count is how much is left of something.
type Count struct {
	N int
	// Unknown is why the number can't be told; "" if it can.
	Unknown string
	// At is when it was told.
	At time.Time
}

// Far from the end a count is told as it halves, or after a while.
const (
	exactBelow = 10
	TellAfter  = 5 * time.Second
)

// Due says when a count deserves to be told, given what was told before: 0 means now.
func (c Count) Due(before Count, now time.Time) time.Duration {
	if before.Unknown != c.Unknown || c.N < exactBelow || before.N < c.N || before.N >= 2*c.N {
		return 0
	}
	return max(0, before.At.Add(TellAfter).Sub(now))
}
