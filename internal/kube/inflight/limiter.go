// Package inflight limits how many requests of reconciles are in flight at the API server, by their latency, and shares
// these seats fairly between flows. API Priority and Fairness, whose words it uses, counts requests and not what they
// cost: many requests of one tenant make each request of another slow long before it refuses any.
//
// A flow is the reconciles of one kind in one namespace. It is bulk if it has many requests at once, and sparse if it
// sends one after the other (as in FQ-CoDel, RFC 8290). Bulk flows yield to sparse ones: a user waits for these.
//
// Limiter is the shell. limit decides how many requests may be in flight, queueSet which flow gets the next seat, and
// bulkShare how many seats bulk flows have beside a sparse one.
package inflight

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/object/apirequest"
)

// Flow identifies the reconciles of a kind in a namespace. Flows share the seats fairly.
type Flow struct {
	Kind      schema.GroupKind
	Namespace string
}

type contextKey struct{}

// WithFlow returns a context whose requests belong to a flow. Requests without a flow are not limited.
func WithFlow(ctx context.Context, flow Flow) context.Context {
	return context.WithValue(ctx, contextKey{}, flow)
}

// Limiter limits the requests in flight. It is safe for concurrent use.
type Limiter struct {
	mu     sync.Mutex
	limit  *limit
	queues *queueSet
}

// New returns a limiter.
func New() *Limiter { return &Limiter{limit: newLimit(), queues: newQueueSet()} }

// Wrap returns a configuration whose clients wait for a seat before they send a request with a flow. If the context of the
// request ends before, they return its error.
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
	if err := t.wait(r.Context(), flow); err != nil {
		return nil, err
	}
	request := apirequest.Parse(r.Method, r.URL)
	seat := t.send(flow, class{request.Verb, request.Group, request.Resource, request.Subresource})
	answer, err := t.next.RoundTrip(r)
	seat.answered(err == nil && answer.StatusCode < http.StatusBadRequest)
	return answer, err
}

// wait returns once a request of the flow has a seat, or with the error of the context.
func (l *Limiter) wait(ctx context.Context, flow Flow) error {
	l.mu.Lock()
	w := l.queues.acquire(flow, time.Now(), l.limit.capacity())
	if w != nil {
		l.limit.waited(l.queues.used)
	}
	l.mu.Unlock()
	if w == nil {
		return nil
	}
	select {
	case <-w.seated:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.queues.cancel(flow, w) { // it got a seat meanwhile
		l.queues.release(flow, time.Now(), l.limit.capacity())
	}
	return ctx.Err()
}

// seat is that of a request in flight.
type seat struct {
	limiter  *Limiter
	flow     Flow
	class    class
	sent     time.Time
	inFlight int
	isSparse bool // beside bulk flows
	overdue  *time.Timer
	released bool // guarded by the limiter's mutex
}

// send begins a request that has a seat. A request without an answer for long loses its seat: it waits for a webhook, say,
// and must not keep other requests from a server that has nothing to do.
func (l *Limiter) send(flow Flow, c class) *seat {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &seat{limiter: l, flow: flow, class: c, sent: time.Now(), inFlight: l.queues.used, isSparse: l.queues.isSparseBesideBulk(flow)}
	s.overdue = time.AfterFunc(min(max(minSeatTime, maxSlowdown*l.limit.baseline[c]), maxSeatTime), s.release)
	return s
}

// minSeatTime and maxSeatTime are for how long a request without an answer keeps its seat at least and at most: one that
// always takes seconds waits for something other than the server, too.
const minSeatTime, maxSeatTime = 100 * time.Millisecond, 500 * time.Millisecond

// answered ends the request. The latency of a request that was refused or failed says nothing about the server's load.
func (s *seat) answered(succeeded bool) {
	s.overdue.Stop()
	now := time.Now()
	if succeeded {
		s.limiter.mu.Lock()
		s.limiter.limit.answered(now, s.class, now.Sub(s.sent), s.inFlight, s.isSparse)
		s.limiter.mu.Unlock()
	}
	s.release()
}

// release returns the seat, once.
func (s *seat) release() {
	s.limiter.mu.Lock()
	defer s.limiter.mu.Unlock()
	if !s.released {
		s.released = true
		s.limiter.queues.release(s.flow, time.Now(), s.limiter.limit.capacity())
	}
}

var (
	limitDesc   = prometheus.NewDesc("espalier_requests_limit", "How many requests of reconciles may be in flight at the API server now.", nil, nil)
	usedDesc    = prometheus.NewDesc("espalier_requests_in_flight", "Requests of reconciles that are in flight at the API server.", nil, nil)
	waitingDesc = prometheus.NewDesc("espalier_requests_waiting", "Requests of reconciles that wait until they may be sent.", nil, nil)
)

// Describe implements prometheus.Collector.
func (l *Limiter) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{limitDesc, usedDesc, waitingDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (l *Limiter) Collect(out chan<- prometheus.Metric) {
	l.mu.Lock()
	limit, used, waiting := l.limit.capacity().shared, l.queues.used, l.queues.waiting()
	l.mu.Unlock()
	gauge := func(d *prometheus.Desc, n int) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n))
	}
	gauge(limitDesc, limit)
	gauge(usedDesc, used)
	gauge(waitingDesc, waiting)
}
