// Package inflight bounds how many requests of reconciles are in flight at the API server, and shares these seats
// fairly between flows: the reconciles of one kind in one namespace. API Priority and Fairness, which its words are
// from, sees one user only, the controllers, unless it is configured for their namespaces. See
// docs/design/0006-queues-and-fairness.md.
package inflight

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Flow identifies the reconciles of a kind in a namespace.
type Flow struct {
	Kind      schema.GroupKind
	Namespace string
}

type contextKey struct{}

// WithFlow returns a context for requests that belong to a flow. Requests without a flow are not limited.
func WithFlow(ctx context.Context, flow Flow) context.Context {
	return context.WithValue(ctx, contextKey{}, flow)
}

// DefaultSeats is how many requests are in flight at once by default.
const DefaultSeats = 16

// maxSeatTime is for how long a request without an answer keeps its seat. One that takes longer waits for something
// other than the API server, such as a webhook, and must not block other requests.
const maxSeatTime = 500 * time.Millisecond

// Limiter is a semaphore. Flows take turns: the flow with a waiting request and the fewest seats gets the next seat;
// among equals, the one that came, or got its last seat, the longest ago. It is safe for concurrent use.
type Limiter struct {
	mu       sync.Mutex
	seats    int
	used     int
	flows    map[Flow]*flowQueue // flows with requests
	sequence uint64              // counts the seats that were given, and the flows that came
}

type flowQueue struct {
	used    int             // seats
	since   uint64          // Limiter.sequence when the flow came, or got its last seat
	waiting []chan struct{} // closed once the request has a seat
}

// New returns a limiter with a number of seats; DefaultSeats if it is 0.
func New(seats int) *Limiter {
	if seats == 0 {
		seats = DefaultSeats
	}
	return &Limiter{seats: seats, flows: map[Flow]*flowQueue{}}
}

// Wrap returns a configuration for clients that wait for a seat before they send a request with a flow. If the context
// of the request ends before, they return its error.
func (l *Limiter) Wrap(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return transport{l, next} })
	return config
}

type transport struct {
	*Limiter
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	flow, ok := r.Context().Value(contextKey{}).(Flow)
	if !ok {
		return t.next.RoundTrip(r)
	}
	if err := t.acquire(r.Context(), flow); err != nil {
		return nil, err
	}
	release := sync.OnceFunc(func() { t.release(flow) })
	overdue := time.AfterFunc(maxSeatTime, release)
	defer release()
	defer overdue.Stop()
	return t.next.RoundTrip(r)
}

// It waits for a seat, and returns the error of the context if that ends first.
func (l *Limiter) acquire(ctx context.Context, flow Flow) error {
	seated := l.enqueue(flow)
	select {
	case <-seated: // also if the context has ended
		return nil
	default:
	}
	select {
	case <-seated:
		return nil
	case <-ctx.Done():
		l.cancel(flow, seated)
		return ctx.Err()
	}
}

// The channel is closed once it has a seat, possibly at once.
func (l *Limiter) enqueue(flow Flow) (seated chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.flows[flow]
	if q == nil {
		// Not before the flows that wait already: flows with one request at a time come again with each.
		l.sequence++
		q = &flowQueue{since: l.sequence}
		l.flows[flow] = q
	}
	seated = make(chan struct{})
	q.waiting = append(q.waiting, seated)
	l.dispatch()
	return seated
}

// A request that got its seat meanwhile returns it.
func (l *Limiter) cancel(flow Flow, seated chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.flows[flow]
	if i := slices.Index(q.waiting, seated); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	} else {
		q.used--
		l.used--
		l.dispatch()
	}
	l.forgetIdle(flow)
}

func (l *Limiter) release(flow Flow) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flows[flow].used--
	l.used--
	l.dispatch()
	l.forgetIdle(flow)
}

func (l *Limiter) dispatch() {
	for l.used < l.seats {
		var next *flowQueue
		for _, q := range l.flows { // no more than there are workers
			if len(q.waiting) > 0 && (next == nil || q.used < next.used || q.used == next.used && q.since < next.since) {
				next = q
			}
		}
		if next == nil {
			return
		}
		seated := next.waiting[0]
		next.waiting = slices.Delete(next.waiting, 0, 1)
		l.sequence++
		next.since = l.sequence
		next.used++
		l.used++
		close(seated)
	}
}

func (l *Limiter) forgetIdle(flow Flow) {
	if q := l.flows[flow]; q.used == 0 && len(q.waiting) == 0 {
		delete(l.flows, flow)
	}
}

var (
	usedDesc    = prometheus.NewDesc("espalier_requests_in_flight", "Requests of reconciles that are in flight at the API server.", nil, nil)
	waitingDesc = prometheus.NewDesc("espalier_requests_waiting", "Requests of reconciles that wait until they may be sent.", nil, nil)
)

// Describe implements prometheus.Collector.
func (l *Limiter) Describe(out chan<- *prometheus.Desc) {
	out <- usedDesc
	out <- waitingDesc
}

// Collect implements prometheus.Collector.
func (l *Limiter) Collect(out chan<- prometheus.Metric) {
	used, waiting := l.count()
	out <- prometheus.MustNewConstMetric(usedDesc, prometheus.GaugeValue, float64(used))
	out <- prometheus.MustNewConstMetric(waitingDesc, prometheus.GaugeValue, float64(waiting))
}

func (l *Limiter) count() (used, waiting int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, q := range l.flows {
		waiting += len(q.waiting)
	}
	return l.used, waiting
}
