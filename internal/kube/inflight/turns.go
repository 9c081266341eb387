package inflight

import (
	"slices"
	"time"
)

// turns shares places among flows. A flow that waits gets the next place if it has the fewest; among equals, the one
// that got its last place the longest ago. Spare places are for flows without any. While a flow has short work, floods
// have few places. It has nothing for flows without requests. It is not safe for concurrent use.
type turns struct {
	used    int                // places in use
	floods  int                // places in use by floods
	flows   map[Flow]*requests // of flows with any
	granted uint64             // counts the places that were given
	short   shortWork
}

// requests are those of a flow.
type requests struct {
	of      Flow
	isFlood bool
	used    int
	last    uint64 // of turns.granted
	waiting []*waiter
}

// waiter is a request without a place. The channel is closed when it has one.
type waiter struct{ granted chan struct{} }

// capacity is how many requests may be in flight: shared ones of any flow, and spare ones, each of which is the only one
// of its flow. Of the shared ones, as many as beside are of floods while another flow has short work.
type capacity struct{ shared, spare, beside int }

func newTurns() *turns { return &turns{flows: map[Flow]*requests{}} }

// join gives a request of the flow a place, or returns what it waits for.
func (t *turns) join(flow Flow, now time.Time, of capacity) *waiter {
	r := t.flows[flow]
	if r == nil {
		r = &requests{of: flow}
		t.flows[flow] = r
	}
	t.classify(r, now)
	if t.mayGrant(r, now, of) {
		t.grant(r)
		return nil
	}
	w := &waiter{granted: make(chan struct{})}
	r.waiting = append(r.waiting, w)
	return w
}

// classify notes that the flow has one more request.
func (t *turns) classify(r *requests, now time.Time) {
	switch {
	case r.isFlood:
	case r.used+len(r.waiting) < shortRequests:
		t.short.note(r.of, now)
	default:
		r.isFlood = true
		t.floods += r.used
	}
}

func (t *turns) mayGrant(r *requests, now time.Time, of capacity) bool {
	if r.isFlood && t.floods >= of.beside && t.short.isOfOthers(r.of, now) {
		return false
	}
	return t.used < of.shared || r.used == 0 && t.used < of.shared+of.spare
}

func (t *turns) grant(r *requests) {
	t.granted++
	r.last = t.granted
	t.use(r, 1)
}

func (t *turns) use(r *requests, places int) {
	t.used += places
	r.used += places
	if r.isFlood {
		t.floods += places
	}
}

// leave gives back a place of the flow.
func (t *turns) leave(flow Flow, now time.Time, of capacity) {
	r := t.flows[flow]
	t.use(r, -1)
	if !r.isFlood {
		t.short.note(flow, now)
	}
	t.dispatch(now, of)
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
func (t *turns) dispatch(now time.Time, of capacity) {
	for r := t.next(now, of); r != nil; r = t.next(now, of) {
		w := r.waiting[0]
		r.waiting = slices.Delete(r.waiting, 0, 1)
		t.grant(r)
		close(w.granted)
	}
}

// next is the flow that gets the next place; nil if none that waits may have it. There are no more flows than workers.
func (t *turns) next(now time.Time, of capacity) (next *requests) {
	for _, r := range t.flows {
		if len(r.waiting) > 0 && t.mayGrant(r, now, of) && (next == nil || r.used < next.used || r.used == next.used && r.last < next.last) {
			next = r
		}
	}
	return next
}

// isShort says whether the flow has short work while a flood has requests in flight.
func (t *turns) isShort(flow Flow) bool { return t.floods > 0 && !t.flows[flow].isFlood }

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
