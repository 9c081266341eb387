package inflight

import "slices"

// turns shares places among flows. A flow that waits gets the next place if it has the fewest; among equals, the one
// that got its last place the longest ago. Spare places are for flows without any. It has nothing for flows without requests. It is not safe for concurrent use.
type turns struct {
	used    int                // places in use
	flows   map[Flow]*requests // of flows with any
	granted uint64             // counts the places that were given
}

// requests are those of a flow.
type requests struct {
	used    int
	last    uint64 // of turns.granted
	waiting []*waiter
}

// waiter is a request without a place. The channel is closed when it has one.
type waiter struct{ granted chan struct{} }

// capacity is how many requests may be in flight: shared ones of any flow, and spare ones, each of which is the only one
// of its flow.
type capacity struct{ shared, spare int }

func newTurns() *turns { return &turns{flows: map[Flow]*requests{}} }

// join gives a request of the flow a place, or returns what it waits for.
func (t *turns) join(flow Flow, of capacity) *waiter {
	r := t.flows[flow]
	if r == nil {
		r = &requests{}
		t.flows[flow] = r
	}
	if t.mayGrant(r, of) {
		t.grant(r)
		return nil
	}
	w := &waiter{granted: make(chan struct{})}
	r.waiting = append(r.waiting, w)
	return w
}

func (t *turns) mayGrant(r *requests, of capacity) bool {
	return t.used < of.shared || r.used == 0 && t.used < of.shared+of.spare
}

func (t *turns) grant(r *requests) {
	t.used++
	t.granted++
	r.used++
	r.last = t.granted
}

// leave gives back a place of the flow.
func (t *turns) leave(flow Flow, of capacity) {
	t.used--
	t.flows[flow].used--
	t.dispatch(of)
	t.forget(flow)
}

// abandon ends the wait of a request; false if it has a place already.
func (t *turns) abandon(flow Flow, w *waiter) bool {
	r := t.flows[flow]
	i := slices.Index(r.waiting, w)
	if i < 0 {
		return false
	}
	r.waiting = slices.Delete(r.waiting, i, i+1)
	t.forget(flow)
	return true
}

// dispatch gives the free places to those that wait.
func (t *turns) dispatch(of capacity) {
	for {
		r := t.next()
		if r == nil || !t.mayGrant(r, of) {
			return
		}
		w := r.waiting[0]
		r.waiting = slices.Delete(r.waiting, 0, 1)
		t.grant(r)
		close(w.granted)
	}
}

// next is the flow that gets the next place; nil if none waits. There are no more flows than workers.
func (t *turns) next() (next *requests) {
	for _, r := range t.flows {
		if len(r.waiting) > 0 && (next == nil || r.used < next.used || r.used == next.used && r.last < next.last) {
			next = r
		}
	}
	return next
}

func (t *turns) forget(flow Flow) {
	if r := t.flows[flow]; r.used == 0 && len(r.waiting) == 0 {
		delete(t.flows, flow)
	}
}

func (t *turns) waiting() (n int) {
	for _, r := range t.flows {
		n += len(r.waiting)
	}
	return n
}
