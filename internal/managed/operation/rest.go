package operation

import (
	"time"

	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// restFactors are how much longer the poll interval becomes by the time that nothing has changed.
var restFactors = []struct {
	after  time.Duration
	factor time.Duration
}{
	{24 * time.Hour, 4},
	{6 * time.Hour, 3},
	{restAfter, 2},
}

const (
	// restAfter is after what time without a change an external resource is at rest.
	restAfter = time.Hour
	// unreadyFactor is how much shorter the interval is for an external resource that was changed, and is not
	// ready yet. It is not shorter than minUnreadyInterval for that reason.
	unreadyFactor      = 5
	minUnreadyInterval = 30 * time.Second
)

// restInterval is how often an external resource is observed for which nothing has changed for a while: the interval;
// up to four times as much, but no more than longest, if it is ready; less if it is not ready yet. With longest 0, it
// stays the interval.
func restInterval(interval, longest, rested time.Duration, isReady bool) time.Duration {
	switch {
	case longest == 0, !isReady && rested >= restAfter:
		return interval
	case !isReady:
		return min(interval, max(minUnreadyInterval, interval/unreadyFactor))
	}
	for _, f := range restFactors {
		if rested >= f.after {
			return max(interval, min(interval*f.factor, longest))
		}
	}
	return interval
}

// pollAtRest is how often to observe the external resource, which is as it should be. A
// difference that is left alone is no rest.
func (s State) pollAtRest() time.Duration {
	since := s.Resource.ChangedAt
	if e := s.Binding.Ended; e != nil && e.At.After(since) {
		since = e.At.Time
	}
	if since.IsZero() || s.driftMessage() != "" {
		return s.Resource.PollInterval
	}
	return restInterval(s.Resource.PollInterval, s.Resource.MaxPollInterval, s.Now.Sub(since), s.Observed.Ready == external.Yes)
}
