package operation

import "time"

// restFactors are how much longer the poll interval becomes by the time that nothing has changed.
var restFactors = []struct {
	after  time.Duration
	factor time.Duration
}{
	{24 * time.Hour, 4},
	{6 * time.Hour, 3},
	{time.Hour, 2},
}

// restInterval is how often an external resource is observed that has been at rest for a while:
// the interval, or up to four times as much, but no more than longest. With longest 0, it stays
// the interval.
func restInterval(interval, longest, rested time.Duration) time.Duration {
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
	return restInterval(s.Resource.PollInterval, s.Resource.MaxPollInterval, s.Now.Sub(since))
}
