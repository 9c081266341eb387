// Package inflight limits how many requests of reconciles are in flight at the API server, by their latency, and shares
// these places between the kinds and namespaces that are reconciled. API Priority and Fairness counts requests and not
// what they cost: many requests of one tenant make each request of another slow long before it refuses any.
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

// Flow are the reconciles whose requests take turns with those of others.
type Flow struct {
	Kind      schema.GroupKind
	Namespace string
}

type contextKey struct{}

// With returns a context whose requests belong to a flow. Others are not limited.
func With(ctx context.Context, flow Flow) context.Context {
	return context.WithValue(ctx, contextKey{}, flow)
}

// Limiter limits the requests in flight. It is safe for concurrent use.
type Limiter struct {
	mu    sync.Mutex
	limit *limit
	turns *turns
}

// New returns a limiter.
func New() *Limiter { return &Limiter{limit: newLimit(), turns: newTurns()} }

// Wrap returns a configuration whose clients wait until a request may be sent, if its context has a flow.
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
	place := t.send(flow, class{request.Verb, request.Group, request.Resource, request.Subresource})
	answer, err := t.next.RoundTrip(r)
	place.answered(err == nil && answer.StatusCode < http.StatusBadRequest)
	return answer, err
}

// wait returns when a request of the flow has a place.
func (l *Limiter) wait(ctx context.Context, flow Flow) error {
	l.mu.Lock()
	w := l.turns.join(flow, time.Now(), l.limit.capacity())
	if w != nil {
		l.limit.waited(l.turns.used)
	}
	l.mu.Unlock()
	if w == nil {
		return nil
	}
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.turns.abandon(flow, w) { // it got a place meanwhile
		l.turns.leave(flow, time.Now(), l.limit.capacity())
	}
	return ctx.Err()
}

// place is that of a request in flight.
type place struct {
	limiter  *Limiter
	flow     Flow
	class    class
	sent     time.Time
	inFlight int
	isShort  bool // beside a flood
	overdue  *time.Timer
	left     bool // guarded by the limiter's mutex
}

// send begins a request that has a place. One that is not answered for long keeps its place only for a while: it waits for a
// webhook, say, and must not keep other requests from a server that has nothing to do.
func (l *Limiter) send(flow Flow, c class) *place {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &place{limiter: l, flow: flow, class: c, sent: time.Now(), inFlight: l.turns.used, isShort: l.turns.isShort(flow)}
	p.overdue = time.AfterFunc(max(minHolding, slowest*l.limit.alone[c]), p.leave)
	return p
}

// minHolding is for how long a request keeps its place at least, unless it is answered.
const minHolding = 100 * time.Millisecond

// answered ends the request. The time of one that was refused or failed says nothing.
func (p *place) answered(succeeded bool) {
	p.overdue.Stop()
	now := time.Now()
	if succeeded {
		p.limiter.mu.Lock()
		p.limiter.limit.answered(now, p.class, now.Sub(p.sent), p.inFlight, p.isShort)
		p.limiter.mu.Unlock()
	}
	p.leave()
}

func (p *place) leave() {
	p.limiter.mu.Lock()
	defer p.limiter.mu.Unlock()
	if !p.left {
		p.left = true
		p.limiter.turns.leave(p.flow, time.Now(), p.limiter.limit.capacity())
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
	limit, used, waiting := l.limit.capacity().shared, l.turns.used, l.turns.waiting()
	l.mu.Unlock()
	gauge := func(d *prometheus.Desc, n int) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n))
	}
	gauge(limitDesc, limit)
	gauge(usedDesc, used)
	gauge(waitingDesc, waiting)
}
