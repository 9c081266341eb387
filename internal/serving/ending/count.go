package ending

import "time"

// Count is how many instances are left, as a status reports it: each report is a write.
type Count struct {
	N int
	// Unknown is why the number is not known; empty if it is.
	Unknown string
	// At is when it was reported.
	At time.Time
}

// A large count is reported when it has halved, or after a while; one below exactBelow each time that it changes.
const (
	exactBelow  = 10
	reportAfter = 5 * time.Second
)

// Due is how long to wait before a count is reported, given the one that was reported before: 0 means now.
func (c Count) Due(before Count, now time.Time) time.Duration {
	if before.Unknown != c.Unknown || c.N < exactBelow || before.N < c.N || before.N >= 2*c.N {
		return 0
	}
	return max(0, before.At.Add(reportAfter).Sub(now))
}
