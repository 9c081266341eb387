package inflight

import (
	"slices"
	"time"
)

// queueSet shares seats among flows, with a queue for each. Of the flows with a waiting request, the one with the fewest
// seats gets the next; among equals, the one that came, or got its last seat, the longest ago. Spare seats are for flows
// without any. While another flow is sparse, bulk flows together get no more than capacity.bulk. A flow without requests
// takes no memory. It is not safe for concurrent use.
type queueSet struct {
	used     int                 // seats in use
	bulkUsed int                 // of these, the ones of bulk flows
	flows    map[Flow]*flowQueue // flows with requests
	sequence uint64              // counts the seats that were given, and the flows that came
	sparse   sparseFlows
}

// flowQueue has the requests of a flow.
type flowQueue struct {
	flow    Flow
	isBulk  bool
	used    int    // seats
	since   uint64 // queueSet.sequence when the flow came, or got its last seat
	waiting []*waiter
}

// waiter is a request without a seat. The channel is closed when it has one.
type waiter struct{ seated chan struct{} }

// capacity is how many seats there are: shared ones for any flow, and spare ones, each of which is the only one of its
// flow. Of the shared ones, bulk flows together may use bulk while another flow is sparse.
type capacity struct{ shared, spare, bulk int }

func newQueueSet() *queueSet { return &queueSet{flows: map[Flow]*flowQueue{}} }

// acquire gives a request of the flow a seat, and returns nil; or it enqueues the request, and returns its waiter.
func (s *queueSet) acquire(flow Flow, now time.Time, of capacity) *waiter {
	q := s.flows[flow]
	if q == nil {
		// Not before those that wait already: flows with one request at a time come again with each.
		s.sequence++
		q = &flowQueue{flow: flow, since: s.sequence}
		s.flows[flow] = q
	}
	s.classify(q, now)
	if s.maySeat(q, now, of) {
		s.seat(q)
		return nil
	}
	w := &waiter{seated: make(chan struct{})}
	q.waiting = append(q.waiting, w)
	return w
}

// classify decides whether a flow is sparse or bulk, before another request of it is added.
func (s *queueSet) classify(q *flowQueue, now time.Time) {
	switch {
	case q.isBulk:
	case q.used+len(q.waiting) < sparseRequests:
		s.sparse.record(q.flow, now)
	default:
		q.isBulk = true
		s.bulkUsed += q.used
	}
}

// maySeat reports whether a flow may use one more seat.
func (s *queueSet) maySeat(q *flowQueue, now time.Time, of capacity) bool {
	if q.isBulk && s.bulkUsed >= of.bulk && s.sparse.hasOther(q.flow, now) {
		return false
	}
	return s.used < of.shared || q.used == 0 && s.used < of.shared+of.spare
}

func (s *queueSet) seat(q *flowQueue) {
	s.sequence++
	q.since = s.sequence
	s.addUsed(q, 1)
}

func (s *queueSet) addUsed(q *flowQueue, seats int) {
	s.used += seats
	q.used += seats
	if q.isBulk {
		s.bulkUsed += seats
	}
}

// release returns a seat of the flow, and dispatches what may have it.
func (s *queueSet) release(flow Flow, now time.Time, of capacity) {
	q := s.flows[flow]
	s.addUsed(q, -1)
	if !q.isBulk {
		s.sparse.record(flow, now)
	}
	s.dispatch(now, of)
	s.forgetIdle(flow)
}

// cancel removes a waiting request; false if it has a seat already.
func (s *queueSet) cancel(flow Flow, w *waiter) bool {
	q := s.flows[flow]
	i := slices.Index(q.waiting, w)
	if i < 0 {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	s.forgetIdle(flow)
	return true
}

// dispatch gives free seats to waiting requests.
func (s *queueSet) dispatch(now time.Time, of capacity) {
	for q := s.next(now, of); q != nil; q = s.next(now, of) {
		w := q.waiting[0]
		q.waiting = slices.Delete(q.waiting, 0, 1)
		s.seat(q)
		close(w.seated)
	}
}

// next is the flow that gets the next seat; nil if none with a waiting request may. There are no more flows than workers.
func (s *queueSet) next(now time.Time, of capacity) (next *flowQueue) {
	for _, q := range s.flows {
		if len(q.waiting) > 0 && s.maySeat(q, now, of) && (next == nil || q.used < next.used || q.used == next.used && q.since < next.since) {
			next = q
		}
	}
	return next
}

// isSparseBesideBulk reports whether a flow is sparse while a bulk flow has requests in flight.
func (s *queueSet) isSparseBesideBulk(flow Flow) bool { return s.bulkUsed > 0 && !s.flows[flow].isBulk }

// forgetIdle drops a flow without requests.
func (s *queueSet) forgetIdle(flow Flow) {
	if q := s.flows[flow]; q.used == 0 && len(q.waiting) == 0 {
		delete(s.flows, flow)
	}
}

// waiting counts the requests without a seat.
func (s *queueSet) waiting() (n int) {
	for _, q := range s.flows {
		n += len(q.waiting)
	}
	return n
}
