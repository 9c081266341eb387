package inflight

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"
)

// server answers each request after two milliseconds, and never one whose path has "hanging".
type server struct{ inFlight, most atomic.Int64 }

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	if n := s.inFlight.Add(1); n > s.most.Load() {
		s.most.Store(n) // in a bubble, only one goroutine runs until it blocks
	}
	defer s.inFlight.Add(-1)
	answer := time.After(2 * time.Millisecond)
	if strings.Contains(r.URL.Path, "hanging") {
		answer = nil
	}
	select {
	case <-answer:
		return &http.Response{StatusCode: http.StatusOK}, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

func send(ctx context.Context, through http.RoundTripper, namespace, resource string) error {
	r, err := http.NewRequestWithContext(WithFlow(ctx, Flow{Namespace: namespace}), http.MethodPatch, "https://server/api/v1/namespaces/a/"+resource+"/b", nil)
	if err != nil {
		return err
	}
	answer, err := through.RoundTrip(r)
	if err == nil && answer.Body != nil {
		_ = answer.Body.Close()
	}
	return err
}

// sendAlways sends requests of a flow by a number of clients, one after the other each, until the context ends.
func sendAlways(ctx context.Context, through http.RoundTripper, clients int, namespace string) {
	for range clients {
		go func() {
			for ctx.Err() == nil {
				_ = send(ctx, through, namespace, "configmaps")
			}
		}()
	}
}

// TestAFlowWithOneRequestWaitsForOneAnswer has a flow that sends one request after the other beside one with hundreds.
func TestAFlowWithOneRequestWaitsForOneAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		s := &server{}
		through := transport{New(4), s}
		sendAlways(ctx, through, 500, "many")
		synctest.Wait()
		for range 100 {
			began := time.Now()
			if err := send(ctx, through, "few", "configmaps"); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 4*time.Millisecond {
				t.Fatalf("the request took %v: two for an answer of the other flow, and two for its own", took)
			}
			<-time.After(time.Millisecond)
		}
		stop()
		synctest.Wait()
		if most := s.most.Load(); most != 4 {
			t.Errorf("%d requests were in flight at once", most)
		}
	})
}

func TestRequestsThatHangDoNotKeepTheirSeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		l := New(4)
		through := transport{l, &server{}}
		for range 8 {
			go func() { _ = send(ctx, through, "many", "hanging") }()
		}
		synctest.Wait()
		began := time.Now()
		if err := send(ctx, through, "few", "configmaps"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > maxSeatTime+2*time.Millisecond {
			t.Errorf("the request took %v", took)
		}
		stop()
		synctest.Wait()
		if used, waiting := l.count(); used != 0 || waiting != 0 || len(l.flows) != 0 {
			t.Errorf("after all requests %d seats are in use and %d requests wait, of %d flows", used, waiting, len(l.flows))
		}
	})
}

func TestARequestStopsWaitingWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		l := New(0)
		through := transport{l, &server{}}
		for range DefaultSeats {
			go func() { _ = send(ctx, through, "many", "hanging") }()
		}
		synctest.Wait()
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		if err := send(short, through, "few", "configmaps"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
		if _, waiting := l.count(); waiting != 0 {
			t.Errorf("%d requests still wait", waiting)
		}
		stop()
		synctest.Wait()
	})
}

func TestRequestsWithoutAFlowAreNotLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		for range 100 {
			go func() {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://server/api/v1/pods?watch=true", nil)
				if err != nil {
					t.Error(err)
					return
				}
				answer, err := transport{New(4), s}.RoundTrip(r)
				if err != nil {
					t.Error(err)
				} else if answer.Body != nil {
					_ = answer.Body.Close()
				}
			}()
		}
		synctest.Wait()
		if n := s.inFlight.Load(); n != 100 {
			t.Errorf("%d of 100 requests are in flight", n)
		}
		<-time.After(time.Second)
	})
}

// TestSeats draws sequences of requests, answers, and ends of waits. All seats are used while requests wait, and the next one
// goes to a flow that has the fewest of those that wait.
func TestSeats(t *testing.T) {
	type request struct {
		flow   Flow
		seated chan struct{}
	}
	rapid.Check(t, func(t *rapid.T) {
		const seats = 2
		l := New(seats)
		var inFlight, waiting []request
		holders := func(flow Flow) (n int) {
			for _, r := range inFlight {
				if r.flow == flow {
					n++
				}
			}
			return n
		}
		// settle moves what got a seat in the last step.
		settle := func() {
			waiting = slices.DeleteFunc(waiting, func(r request) bool {
				select {
				case <-r.seated:
				default:
					return false
				}
				for _, other := range waiting {
					if holders(other.flow) < holders(r.flow) {
						t.Fatalf("a flow with %d seats got one, while another that waits has %d", holders(r.flow), holders(other.flow))
					}
				}
				inFlight = append(inFlight, r)
				return true
			})
		}
		t.Repeat(map[string]func(*rapid.T){
			"request": func(t *rapid.T) {
				flow := Flow{Namespace: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "flow")}
				waiting = append(waiting, request{flow, l.enqueue(flow)})
				settle()
			},
			"answer": func(t *rapid.T) {
				if len(inFlight) == 0 {
					t.Skip("nothing is in flight")
				}
				i := rapid.IntRange(0, len(inFlight)-1).Draw(t, "which")
				flow := inFlight[i].flow
				inFlight = slices.Delete(inFlight, i, i+1)
				l.release(flow)
				settle()
			},
			"stop waiting": func(t *rapid.T) {
				if len(waiting) == 0 {
					t.Skip("nothing waits")
				}
				i := rapid.IntRange(0, len(waiting)-1).Draw(t, "which")
				l.cancel(waiting[i].flow, waiting[i].seated)
				waiting = slices.Delete(waiting, i, i+1)
				settle()
			},
			"": func(t *rapid.T) {
				used, waits := l.count()
				if used != len(inFlight) || waits != len(waiting) || used < seats && waits > 0 || used > seats {
					t.Fatalf("%d seats are in use and %d requests wait; want %d and %d", used, waits, len(inFlight), len(waiting))
				}
				flows := map[Flow]bool{}
				for _, r := range slices.Concat(inFlight, waiting) {
					flows[r.flow] = true
				}
				if len(flows) != len(l.flows) {
					t.Fatalf("%d flows are remembered, of %d with requests", len(l.flows), len(flows))
				}
			},
		})
	})
}

// TestAFlowThatWaitsIsNotPassedForever has a flow with two requests, of which one waits, beside others that send one request
// after the other, so that one of them waits whenever a seat is free.
func TestAFlowThatWaitsIsNotPassedForever(t *testing.T) {
	l := New(1)
	flow := Flow{Namespace: "two"}
	l.enqueue(flow)
	second := l.enqueue(flow)
	others := [2]Flow{{Namespace: "one"}, {Namespace: "other"}}
	l.enqueue(others[0])
	inFlight := flow
	for i := range 10 {
		l.release(inFlight)
		select {
		case <-second:
			return
		default:
		}
		inFlight = others[i%2]
		l.enqueue(others[(i+1)%2])
	}
	t.Error("ten requests of other flows that came later were sent before")
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		l := New(4)
		for range 4 + 3 {
			go func() { _ = send(ctx, transport{l, &server{}}, "many", "hanging") }()
		}
		synctest.Wait()
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(l)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			got[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
		}
		if diff := cmp.Diff(map[string]float64{"espalier_requests_in_flight": 4, "espalier_requests_waiting": 3}, got); diff != "" {
			t.Errorf("other metrics (-want +got):\n%s", diff)
		}
		stop()
		synctest.Wait()
	})
}
