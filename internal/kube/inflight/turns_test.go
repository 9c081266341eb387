package inflight

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestTurns draws sequences of requests, answers and ends of waits, changes of the limit, and time that passes. A request
// gets a place at once if one is free, or if its flow has none and a spare one is, unless it is a flood's beside short work.
// The next place goes to a flow that has the fewest of those that wait and may have it.
func TestTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type sent struct {
			flow Flow
			w    *waiter // nil once it has a place
		}
		turns, limit, now := newTurns(), capacity{2, 1, 1}, time.Unix(0, 0)
		var inFlight, waiting []sent
		floods, lastShort := map[Flow]bool{}, map[Flow]time.Time{}
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
				if floods[s.flow] {
					n++
				}
			}
			if !floods[flow] || n < limit.beside {
				return false
			}
			for other, at := range lastShort {
				if other != flow && now.Sub(at) < lingering {
					return true
				}
			}
			return false
		}
		isFree := func(flow Flow) bool {
			return !mustYield(flow) && (len(inFlight) < limit.shared || holders(flow) == 0 && len(inFlight) < limit.shared+limit.spare)
		}
		// note updates what is known of a flow: with whether it has one more request.
		note := func(flow Flow, more bool) {
			outstanding := holders(flow)
			for _, s := range waiting {
				if s.flow == flow {
					outstanding++
				}
			}
			if more && outstanding >= shortRequests {
				floods[flow] = true
			}
			if !floods[flow] {
				lastShort[flow] = now
			}
			if !more && outstanding == 0 {
				delete(floods, flow)
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
				case <-s.w.granted:
					granted = append(granted, sent{flow: s.flow})
					return true
				default:
					return false
				}
			})
			if anyFree != (len(granted) > 0) {
				t.Fatalf("%d requests got a place; one is free: %v", len(granted), anyFree)
			}
			if len(granted) == 1 && holders(granted[0].flow) != fewest {
				t.Fatalf("a flow with %d places got one, while another that waits has %d", holders(granted[0].flow), fewest)
			}
			inFlight = append(inFlight, granted...)
			for _, s := range waiting {
				if isFree(s.flow) {
					t.Fatal("a request waits although it may have a place")
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"request": func(t *rapid.T) {
				flow := Flow{Namespace: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "flow")}
				note(flow, true)
				w := turns.join(flow, now, limit)
				if (w == nil) != isFree(flow) {
					t.Fatalf("the request waits: %v; a place is free: %v", w != nil, isFree(flow))
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
				turns.leave(flow, now, limit)
				note(flow, false)
				settle()
			},
			"stop waiting": func(t *rapid.T) {
				if len(waiting) == 0 {
					t.Skip("nothing waits")
				}
				i := rapid.IntRange(0, len(waiting)-1).Draw(t, "which")
				if !turns.abandon(waiting[i].flow, waiting[i].w) {
					t.Fatal("a request that waits has no place")
				}
				flow := waiting[i].flow
				waiting = slices.Delete(waiting, i, i+1)
				if !slices.ContainsFunc(append(slices.Clone(inFlight), waiting...), func(s sent) bool { return s.flow == flow }) {
					delete(floods, flow)
				}
			},
			"time": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "milliseconds")) * time.Millisecond)
			},
			"limit": func(t *rapid.T) {
				limit = capacity{rapid.IntRange(1, 4).Draw(t, "shared"), rapid.IntRange(0, 2).Draw(t, "spare"), rapid.IntRange(1, 3).Draw(t, "beside")}
			},
			"": func(t *rapid.T) {
				if turns.used != len(inFlight) || turns.waiting() != len(waiting) {
					t.Fatalf("%d places are in use and %d requests wait; want %d and %d", turns.used, turns.waiting(), len(inFlight), len(waiting))
				}
				if len(waiting) > 0 && len(inFlight) == 0 {
					t.Fatal("requests wait, and no answer will let them go on")
				}
				flows := map[Flow]bool{}
				for _, s := range append(slices.Clone(inFlight), waiting...) {
					flows[s.flow] = true
				}
				if len(flows) != len(turns.flows) {
					t.Fatalf("%d flows are remembered, of %d with requests", len(turns.flows), len(flows))
				}
			},
		})
	})
}
