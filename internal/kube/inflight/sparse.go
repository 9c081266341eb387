package inflight

import "time"

const (
	// sparseRequests is how many requests of a sparse flow are outstanding at most: those of one reconcile. A flow with
	// more is bulk, until it has none.
	sparseRequests = 4
	// sparseGap is how long a flow stays sparse after a request: until an event causes the next reconcile, and its
	// request.
	sparseGap = 10 * time.Millisecond
)

// sparseFlows has the two flows that were sparse last. One may be the flow that asks, at the beginning of its bulk.
type sparseFlows [2]struct {
	flow Flow
	at   time.Time
}

// record records that a flow is sparse now.
func (s *sparseFlows) record(flow Flow, now time.Time) {
	if s[0].flow != flow {
		s[1] = s[0]
	}
	s[0].flow, s[0].at = flow, now
}

// hasOther reports whether another flow is sparse now.
func (s *sparseFlows) hasOther(flow Flow, now time.Time) bool {
	for _, last := range s {
		if last.flow != flow && now.Sub(last.at) < sparseGap {
			return true
		}
	}
	return false
}
