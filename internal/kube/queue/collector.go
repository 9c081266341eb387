package queue

import (
	"cmp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Collector reports, for each kind that is served, how much there is to do.
func (e *Engine) Collector() prometheus.Collector { return collector{e.queue} }

type collector struct{ queue *workQueue }

func describe(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("espalier_queue_"+name, help, []string{"group", "kind"}, nil)
}

var (
	depthDesc   = describe("depth", "Objects that wait to be reconciled.")
	activeDesc  = describe("active", "Reconciles in flight.")
	retriesDesc = describe("retries", "Objects whose last reconcile failed and is repeated.")
)

// Describe implements prometheus.Collector.
func (collector) Describe(out chan<- *prometheus.Desc) {
	out <- depthDesc
	out <- activeDesc
	out <- retriesDesc
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	for kind, n := range c.queue.counts() {
		gauge := func(d *prometheus.Desc, v int) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), kind.Group, kind.Kind)
		}
		gauge(depthDesc, n.depth)
		gauge(activeDesc, n.active)
		gauge(retriesDesc, n.failing)
	}
}

// Kinds are those that controllers run for, in no order.
func (e *Engine) Kinds() []schema.GroupVersionKind {
	e.queue.mu.Lock()
	defer e.queue.mu.Unlock()
	var out []schema.GroupVersionKind
	for k := range e.queue.kinds {
		if !slices.Contains(out, k.controller.Kind) {
			out = append(out, k.controller.Kind)
		}
	}
	return out
}

// kindCounts is how much work there is.
type kindCounts struct{ depth, active, failing int }

// counts counts by kind: a kind has two queues while a controller that is being stopped ends its last reconciles and its
// successor waits for that.
func (q *workQueue) counts() map[schema.GroupKind]kindCounts {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := map[schema.GroupKind]kindCounts{}
	for k := range q.kinds {
		kind := k.controller.Kind.GroupKind()
		n := out[kind]
		out[kind] = kindCounts{n.depth + k.depth, n.active + k.active, n.failing + k.failing}
	}
	return out
}

// Stats are the requests of a kind: Depth wait, Active are being reconciled, and Retries failed last and are repeated.
type Stats struct {
	Kind                   schema.GroupKind
	Depth, Active, Retries int
	// Since is when the request was made that has waited longest; zero if none waits.
	Since time.Time
}

// Stats returns the numbers of all kinds that controllers run for, sorted.
func (e *Engine) Stats() []Stats {
	var out []Stats
	since := e.queue.oldest()
	for kind, n := range e.queue.counts() {
		out = append(out, Stats{kind, n.depth, n.active, n.failing, since[kind]})
	}
	slices.SortFunc(out, func(a, b Stats) int { return cmp.Compare(a.Kind.String(), b.Kind.String()) })
	return out
}

// oldest returns when the request of each kind was made that has waited longest. It compares the first of each namespace and
// priority: there are fewer of them than requests.
func (q *workQueue) oldest() map[schema.GroupKind]time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := map[schema.GroupKind]time.Time{}
	for k := range q.kinds {
		kind := k.controller.Kind.GroupKind()
		for priority := range k.waiting {
			for ns := range k.waiting[priority].rounds.all() {
				since := ns.items.front().request.since
				if known, ok := out[kind]; !ok || since.Before(known) {
					out[kind] = since
				}
			}
		}
	}
	return out
}
