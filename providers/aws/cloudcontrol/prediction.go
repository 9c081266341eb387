package cloudcontrol

import "time"

const (
	// freshAge is how old a result may be that counts as if it was read now.
	freshAge = 15 * time.Second
	// maxAge is how old the result of a resource at rest may be at most.
	maxAge = 10 * time.Minute
	// sameRequest is within what time requests are a part of the same observation.
	sameRequest = time.Second
	// unrequested is after what time without a request a resource leaves the batches, unless its requests are rarer.
	unrequested = time.Hour
)

// requests are when a resource was requested. They predict when it will be requested again.
type requests struct {
	last time.Time
	// gaps are the two last times between requests; 0 where there is none.
	gaps [2]time.Duration
}

func (r *requests) add(now time.Time) {
	if gap := now.Sub(r.last); !r.last.IsZero() && gap >= sameRequest {
		r.gaps = [2]time.Duration{gap, r.gaps[0]}
	}
	r.last = now
}

// It is the longer one of the two last gaps, so it stays the same when an event comes between two polls. It is 0 if
// there was only one request.
func (r requests) interval() time.Duration { return max(r.gaps[0], r.gaps[1]) }

// age is how old a result may be that is used: three quarters of the interval, so a change is seen at the second poll
// after it at the latest; not more than limit, and at least freshAge, which is too short to matter.
func (r requests) age(limit time.Duration) time.Duration {
	return min(limit, max(freshAge, r.interval()*3/4), maxAge)
}

// A result that is read now can be used, and the one that was read at another time cannot: when the next request comes,
// it will be too old. Without such a result, read is zero.
func (r requests) isWorthReading(now, read time.Time, limit time.Duration) bool {
	age := r.age(limit)
	latest := r.last.Add(r.interval() + min(r.interval()/8, age/2)) // polls have a jitter of a tenth
	if latest.Before(now) {
		latest = now
	}
	switch {
	case now.Sub(r.last) > max(unrequested, 2*r.interval()):
		return false
	case now.Add(age).Before(latest):
		return false
	}
	return read.IsZero() || read.Add(age).Before(latest)
}

// Resources are compared by their next expected requests. Resources with a wrong prediction, not only a bit early, come
// last.
func (r requests) compare(other requests, now time.Time) int {
	expected, isWrong := r.prediction(now)
	otherExpected, isOtherWrong := other.prediction(now)
	switch {
	case isWrong == isOtherWrong:
		return expected.Compare(otherExpected)
	case isWrong:
		return 1
	}
	return -1
}

func (r requests) prediction(now time.Time) (expected time.Time, isWrong bool) {
	return r.last.Add(r.interval()), now.Sub(r.last) > 2*r.interval()
}
