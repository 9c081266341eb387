package engine

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Collector reports, for each kind that is served, how much there is to do.
func (e *Engine) Collector() prometheus.Collector { return collector{e.queue} }

type collector struct{ queue *queue }

func describe(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("espalier_queue_"+name, help, []string{"group", "kind"}, nil)
}

var (
	depthDesc   = describe("depth", "Objects that wait for a pass.")
	activeDesc  = describe("active", "Passes in flight.")
	retriesDesc = describe("retries", "Objects whose last pass failed: it is repeated.")
)

// Describe implements prometheus.Collector.
func (collector) Describe(out chan<- *prometheus.Desc) {
	out <- depthDesc
	out <- activeDesc
	out <- retriesDesc
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	for kind, n := range c.queue.tally() {
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
	for l := range e.queue.lanes {
		if !slices.Contains(out, l.of.Kind) {
			out = append(out, l.of.Kind)
		}
	}
	return out
}

// tally is how much work there is.
type tally struct{ depth, active, failing int }

// tally counts by kind: a kind has two lanes while a controller that is stopped
// ends its last passes and its successor waits for that.
func (q *queue) tally() map[schema.GroupKind]tally {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := map[schema.GroupKind]tally{}
	for l := range q.lanes {
		kind := l.of.Kind.GroupKind()
		n := out[kind]
		out[kind] = tally{n.depth + l.depth, n.active + l.active, n.failing + l.failing}
	}
	return out
}
