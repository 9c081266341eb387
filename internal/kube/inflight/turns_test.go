package inflight

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestTurns draws sequences of requests, answers and ends of waits, and changes of the limit. No more places are in
// use than the limit had when they were given, none is free while a request waits, and the next place goes to a flow
// that has the fewest of those that wait.
func TestTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type sent struct {
			flow Flow
			w    *waiter // nil once it has a place
		}
		turns, limit := newTurns(), 2
		var inFlight, waiting []sent
		holders := func(flow Flow) (n int) {
			for _, s := range inFlight {
				if s.flow == flow {
					n++
				}
			}
			return n
		}
		// settle moves what was granted since the last step.
		settle := func() {
			fewest := -1
			for _, s := range waiting {
				if n := holders(s.flow); fewest < 0 || n < fewest {
					fewest = n
				}
			}
			first := true
			waiting = slices.DeleteFunc(waiting, func(s sent) bool {
				select {
				case <-s.w.granted:
				default:
					return false
				}
				if n := holders(s.flow); first && limit-len(inFlight) == 1 && n != fewest {
					t.Fatalf("a flow with %d places got one, while another that waits has %d", n, fewest)
				}
				first = false
				inFlight = append(inFlight, sent{flow: s.flow})
				return true
			})
		}
		t.Repeat(map[string]func(*rapid.T){
			"request": func(t *rapid.T) {
				flow := Flow{Namespace: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "flow")}
				if w := turns.join(flow, limit); w == nil {
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
				turns.leave(flow, limit)
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
				waiting = slices.Delete(waiting, i, i+1)
			},
			"limit": func(t *rapid.T) { limit = rapid.IntRange(1, 4).Draw(t, "limit") },
			"": func(t *rapid.T) {
				if turns.used != len(inFlight) || turns.waiting() != len(waiting) {
					t.Fatalf("%d places are in use and %d requests wait; want %d and %d", turns.used, turns.waiting(), len(inFlight), len(waiting))
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
