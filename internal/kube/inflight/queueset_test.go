package inflight

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestQueueSet draws sequences of requests, answers and ends of waits, changes of the limit, and time that passes. A request
// gets a seat at once if one is free, or if its flow has none and a spare one is, unless it is of a bulk flow that must
// yield to a sparse one. The next seat goes to a flow that has the fewest of those that wait and may have it.
func TestQueueSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type sent struct {
			flow Flow
			w    *waiter // nil once it has a seat
		}
		queues, limit, now := newQueueSet(), capacity{2, 1, 1}, time.Unix(0, 0)
		var inFlight, waiting []sent
		isBulk, lastSparse := map[Flow]bool{}, map[Flow]time.Time{}
		holders := func(flow Flow) (n int) {
			for _, s := range inFlight {
				if s.flow == flow {
					n++
				}
			}
			return n
		}
		mustYield := func(flow Flow) bool {
			n := 0
			for _, s := range inFlight {
				if isBulk[s.flow] {
					n++
				}
			}
			if !isBulk[flow] || n < limit.bulk {
				return false
			}
			for other, at := range lastSparse {
				if other != flow && now.Sub(at) < sparseGap {
					return true
				}
			}
			return false
		}
		isFree := func(flow Flow) bool {
			return !mustYield(flow) && (len(inFlight) < limit.shared || holders(flow) == 0 && len(inFlight) < limit.shared+limit.spare)
		}
		// classify updates whether a flow is bulk or sparse; more says that it has one more request.
		classify := func(flow Flow, more bool) {
			outstanding := holders(flow)
			for _, s := range waiting {
				if s.flow == flow {
					outstanding++
				}
			}
			if more && outstanding >= sparseRequests {
				isBulk[flow] = true
			}
			if !isBulk[flow] {
				lastSparse[flow] = now
			}
			if !more && outstanding == 0 {
				delete(isBulk, flow)
			}
		}
		// settle moves what was granted since the last step.
		settle := func() {
			fewest, anyFree := -1, false
			for _, s := range waiting {
				if n := holders(s.flow); isFree(s.flow) && (fewest < 0 || n < fewest) {
					fewest, anyFree = n, true
				}
			}
			var granted []sent
			waiting = slices.DeleteFunc(waiting, func(s sent) bool {
				select {
				case <-s.w.seated:
					granted = append(granted, sent{flow: s.flow})
					return true
				default:
					return false
				}
			})
			if anyFree != (len(granted) > 0) {
				t.Fatalf("%d requests got a seat; one is free: %v", len(granted), anyFree)
			}
			if len(granted) == 1 && holders(granted[0].flow) != fewest {
				t.Fatalf("a flow with %d seats got one, while another that waits has %d", holders(granted[0].flow), fewest)
			}
			inFlight = append(inFlight, granted...)
			for _, s := range waiting {
				if isFree(s.flow) {
					t.Fatal("a request waits although it may have a seat")
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"request": func(t *rapid.T) {
				flow := Flow{Namespace: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "flow")}
				classify(flow, true)
				w := queues.acquire(flow, now, limit)
				if (w == nil) != isFree(flow) {
					t.Fatalf("the request waits: %v; a seat is free: %v", w != nil, isFree(flow))
				}
				if w == nil {
					inFlight = append(inFlight, sent{flow: flow})
				} else {
					waiting = append(waiting, sent{flow, w})
				}
			},
			"answer": func(t *rapid.T) {
				if len(inFlight) == 0 {
					t.Skip("nothing is in flight")
				}
				i := rapid.IntRange(0, len(inFlight)-1).Draw(t, "which")
				flow := inFlight[i].flow
				inFlight = slices.Delete(inFlight, i, i+1)
				queues.release(flow, now, limit)
				classify(flow, false)
				settle()
			},
			"stop waiting": func(t *rapid.T) {
				if len(waiting) == 0 {
					t.Skip("nothing waits")
				}
				i := rapid.IntRange(0, len(waiting)-1).Draw(t, "which")
				if !queues.cancel(waiting[i].flow, waiting[i].w) {
					t.Fatal("a request that waits has no seat")
				}
				flow := waiting[i].flow
				waiting = slices.Delete(waiting, i, i+1)
				if !slices.ContainsFunc(append(slices.Clone(inFlight), waiting...), func(s sent) bool { return s.flow == flow }) {
					delete(isBulk, flow)
				}
			},
			"time": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "milliseconds")) * time.Millisecond)
			},
			"limit": func(t *rapid.T) {
				limit = capacity{rapid.IntRange(1, 4).Draw(t, "shared"), rapid.IntRange(0, 2).Draw(t, "spare"), rapid.IntRange(1, 3).Draw(t, "bulk")}
			},
			"": func(t *rapid.T) {
				if queues.used != len(inFlight) || queues.waiting() != len(waiting) {
					t.Fatalf("%d seats are in use and %d requests wait; want %d and %d", queues.used, queues.waiting(), len(inFlight), len(waiting))
				}
				if len(waiting) > 0 && len(inFlight) == 0 {
					t.Fatal("requests wait, and no answer will let them go on")
				}
				flows := map[Flow]bool{}
				for _, s := range append(slices.Clone(inFlight), waiting...) {
					flows[s.flow] = true
				}
				if len(flows) != len(queues.flows) {
					t.Fatalf("%d flows are remembered, of %d with requests", len(queues.flows), len(flows))
				}
			},
		})
	})
}

// TestAFlowThatWaitsIsNotPassedForever has a flow with two requests, of which one waits, beside others that send one request
// after the other, so that one of them waits whenever a seat is free.
func TestAFlowThatWaitsIsNotPassedForever(t *testing.T) {
	queues, limit, now := newQueueSet(), capacity{shared: 1, bulk: 1}, time.Unix(0, 0)
	waits := func(w *waiter) bool {
		select {
		case <-w.seated:
			return false
		default:
			return true
		}
	}
	flow := Flow{Namespace: "two"}
	queues.acquire(flow, now, limit)
	second := queues.acquire(flow, now, limit)
	others := [2]Flow{{Namespace: "one"}, {Namespace: "other"}}
	queues.acquire(others[0], now, limit)
	inFlight := flow
	for i := range 10 {
		queues.release(inFlight, now, limit)
		if !waits(second) {
			return
		}
		inFlight = others[i%2]
		queues.acquire(others[(i+1)%2], now, limit)
	}
	t.Error("ten requests of other flows that came later were sent before")
}
