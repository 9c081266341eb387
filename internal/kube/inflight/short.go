package inflight

import "time"

const (
	// shortRequests of a flow are outstanding at most while its work is short: one reconcile at a time. A flow with
	// more is a flood, until it has none.
	shortRequests = 4
	// lingering is for how long short work goes on after a request: until an event brings the next reconcile, and its
	// request.
	lingering = 10 * time.Millisecond
)

// shortWork knows the two flows that had short work last. One may be the flow that asks, at the beginning of its flood.
type shortWork [2]struct {
	of Flow
	at time.Time
}

func (s *shortWork) note(of Flow, now time.Time) {
	if s[0].of != of {
		s[1] = s[0]
	}
	s[0].of, s[0].at = of, now
}

// isOfOthers says whether another flow has short work.
func (s *shortWork) isOfOthers(flow Flow, now time.Time) bool {
	for _, last := range s {
		if last.of != flow && now.Sub(last.at) < lingering {
			return true
		}
	}
	return false
}
