package inflight

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// server answers requests by sharing its cores among them. Each takes two milliseconds of a core, more or less.
type server struct {
	cores    int
	inFlight atomic.Int64
	others   int // requests of other clients that are in flight all the time
	served   atomic.Int64

	mu     sync.Mutex
	random *rand.Rand
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	n := s.inFlight.Add(1)
	defer s.inFlight.Add(-1)
	s.mu.Lock()
	took := 1.5 + s.random.Float64()
	s.mu.Unlock()
	share := max(1, (float64(n)+float64(s.others))/float64(s.cores))
	select {
	case <-time.After(time.Duration(took * share * float64(time.Millisecond))):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	s.served.Add(1)
	return &http.Response{StatusCode: http.StatusOK}, nil
}

func newServer(cores int) *server {
	return &server{cores: cores, random: rand.New(rand.NewPCG(1, 2))} //nolint:gosec // a test that repeats
}

// sendBulk sends requests of a flow by a number of clients, one after the other each.
func sendBulk(ctx context.Context, through http.RoundTripper, clients int, flow Flow) {
	for range clients {
		go func() {
			for ctx.Err() == nil {
				_ = send(ctx, through, flow, "configmaps")
			}
		}()
	}
}

func send(ctx context.Context, through http.RoundTripper, flow Flow, resource string) error {
	r, err := http.NewRequestWithContext(WithFlow(ctx, flow), http.MethodPatch, "https://server/api/v1/namespaces/a/"+resource+"/b", nil)
	if err != nil {
		return err
	}
	answer, err := through.RoundTrip(r)
	if err == nil && answer.Body != nil {
		_ = answer.Body.Close()
	}
	return err
}

// pass lets time pass in a bubble, until nothing happens any more.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestTheLimitFollowsTheSizeOfTheServer(t *testing.T) {
	for _, cores := range []int{1, 2, 8, 32} {
		t.Run(fmt.Sprint(cores), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				s, l := newServer(cores), New()
				sendBulk(ctx, transport{l, s}, 128, Flow{Namespace: "many"})
				pass(10 * time.Second)
				s.served.Store(0)
				pass(20 * time.Second)
				limit, busy := int(l.limit.value), float64(s.served.Load())*0.002/20/float64(cores)
				t.Logf("%d requests may be in flight on %d cores, which are busy for %.0f %% of the time", limit, cores, 100*busy)
				if limit < cores || limit > 2*cores+6 {
					t.Errorf("%d requests may be in flight on %d cores", limit, cores)
				}
				if busy < 0.9 {
					t.Errorf("the server is busy for %.0f %% of the time, although there is always something to do", 100*busy)
				}
				stop()
				synctest.Wait()
			})
		})
	}
}

func TestABulkFlowYieldsToASparseOne(t *testing.T) {
	for _, c := range []struct {
		cores int
		// least of the bulk flow's requests are answered in a second beside a sparse flow. Alone they would be 500 for
		// each core.
		least float64
	}{{2, 300}, {8, 1500}, {32, 10_000}} {
		t.Run(fmt.Sprint(c.cores), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				s, l := newServer(c.cores), New()
				through := transport{l, s}
				sendBulk(ctx, through, 128, Flow{Namespace: "many"})
				pass(20 * time.Second)
				var waited time.Duration
				work := func(n int) {
					for range n {
						began := time.Now()
						if err := send(ctx, through, Flow{Namespace: "few"}, "configmaps"); err != nil {
							t.Fatal(err)
						}
						waited += time.Since(began)
						<-time.After(2 * time.Millisecond) // until an event brings the next reconcile
					}
				}
				work(2_000) // until it is known how many requests of the bulk flow may be in flight beside it
				s.served.Store(0)
				const n = 3_000
				waited = 0
				began := time.Now()
				work(n)
				rate := float64(s.served.Load()-n) / time.Since(began).Seconds()
				t.Logf("a request took %v; %.0f of the others were answered in a second", waited/n, rate)
				if waited/n > 3*time.Millisecond { // two alone, and with 128 in flight 128 and 8
					t.Errorf("a request took %v beside those of another flow", waited/n)
				}
				if rate < c.least {
					t.Errorf("%.0f requests of the other flow were answered in a second, of %.0f at least", rate, c.least)
				}
				stop()
				synctest.Wait()
			})
		})
	}
}

// TestManyFlowsWithOneRequestDoNotStarveAnother has more flows than seats that send one request after the other each, and
// one that sends two.
func TestManyFlowsWithOneRequestDoNotStarveAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		l := New()
		through := transport{l, newServer(2)}
		for i := range 12 {
			sendBulk(ctx, through, 1, Flow{Namespace: fmt.Sprint("one", i)})
		}
		pass(20 * time.Second)
		began := time.Now()
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				for range 10 {
					_ = send(ctx, through, Flow{Namespace: "two"}, "configmaps")
				}
			})
		}
		go func() {
			both.Wait()
			if took := time.Since(began); took > time.Second {
				t.Errorf("20 requests took %v", took)
			}
			stop()
		}()
		<-time.After(time.Minute)
		stop()
		synctest.Wait()
	})
}

func TestOtherClientsDoNotStarveTheControllers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		s, l := newServer(2), New()
		s.others = 200
		sendBulk(ctx, transport{l, s}, 128, Flow{Namespace: "many"})
		pass(2 * time.Minute)
		if l.limit.value < initialLimit/2 { // their own requests make nothing slower
			t.Errorf("%.0f requests may be in flight", l.limit.value)
		}
		stop()
		synctest.Wait()
	})
}

// hanging answers requests for one resource when their contexts end.
type hanging struct{ next http.RoundTripper }

func (h hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.URL.Path, "hanging") {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return h.next.RoundTrip(r)
}

func TestRequestsThatHangDoNotKeepTheirSeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		l := New()
		through := transport{l, hanging{newServer(2)}}
		for range 1000 {
			go func() { _ = send(ctx, through, Flow{Namespace: "many"}, "hanging") }()
		}
		synctest.Wait()
		began := time.Now()
		if err := send(ctx, through, Flow{Namespace: "few"}, "configmaps"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 2*minSeatTime {
			t.Errorf("the request took %v", took)
		}
		stop()
		synctest.Wait()
		if l.queues.used != 0 || l.queues.waiting() != 0 || len(l.queues.flows) != 0 {
			t.Errorf("after all requests %d seats are in use and %d requests wait, of %d flows", l.queues.used, l.queues.waiting(), len(l.queues.flows))
		}
	})
}

// slow answers requests for one resource after some seconds, as with an admission webhook.
type slow struct{ next http.RoundTripper }

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.URL.Path, "slow") {
		select {
		case <-time.After(5 * time.Second):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	return s.next.RoundTrip(r)
}

// TestRequestsThatAreAlwaysSlowDoNotKeepTheirSeats has a flow whose requests are known to take seconds, so that ten times
// as much is a minute. Others must not wait for them, also while requests are measured with few in flight.
func TestRequestsThatAreAlwaysSlowDoNotKeepTheirSeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		through := transport{New(), slow{newServer(2)}}
		for range 4 {
			go func() {
				for ctx.Err() == nil {
					_ = send(ctx, through, Flow{Namespace: "many"}, "slow")
				}
			}()
		}
		pass(30 * time.Second)
		for until := time.Now().Add(time.Minute); time.Now().Before(until); <-time.After(2 * time.Millisecond) {
			began := time.Now()
			if err := send(ctx, through, Flow{Namespace: "few"}, "configmaps"); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > time.Second {
				t.Fatalf("the request took %v", took)
			}
		}
		stop()
		synctest.Wait()
	})
}

func TestARequestStopsWaitingWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		l := New()
		through := transport{l, hanging{newServer(2)}}
		for range initialLimit {
			go func() { _ = send(ctx, through, Flow{Namespace: "many"}, "hanging") }()
		}
		synctest.Wait()
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		if err := send(short, through, Flow{Namespace: "few"}, "configmaps"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
		if n := l.queues.waiting(); n != 0 {
			t.Errorf("%d requests still wait", n)
		}
		stop()
		synctest.Wait()
	})
}

func TestOtherRequestsAreNotLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := newServer(2), New()
		for range 100 {
			go func() {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://server/api/v1/pods?watch=true", nil)
				if err != nil {
					t.Error(err)
					return
				}
				answer, err := transport{l, s}.RoundTrip(r)
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
		pass(time.Second)
	})
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		l := New()
		for range initialLimit + 3 {
			go func() { _ = send(ctx, transport{l, hanging{newServer(2)}}, Flow{Namespace: "many"}, "hanging") }()
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
		want := map[string]float64{"espalier_requests_limit": initialLimit, "espalier_requests_in_flight": initialLimit, "espalier_requests_waiting": 3}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("other metrics (-want +got):\n%s", diff)
		}
		stop()
		synctest.Wait()
	})
}
