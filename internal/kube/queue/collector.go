package queue

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Stats are the requests of a kind: Depth wait, Active are being reconciled, and Retries failed last and are repeated.
type Stats struct {
	Kind                   schema.GroupKind
	Depth, Active, Retries int
	// Since is when the longest-waiting request was made; zero if none waits.
	Since time.Time
}

// Stats returns the numbers of all kinds that controllers run for, sorted. A kind has two queues while a controller that is
// being stopped ends its last reconciles and its successor waits for that.
func (e *Engine) Stats() []Stats {
	byKind := map[schema.GroupKind]Stats{}
	for _, k := range e.all() {
		s := k.stats()
		if other, ok := byKind[s.Kind]; ok {
			s.Depth, s.Active, s.Retries = s.Depth+other.Depth, s.Active+other.Active, s.Retries+other.Retries
			if s.Since.IsZero() || !other.Since.IsZero() && other.Since.Before(s.Since) {
				s.Since = other.Since
			}
		}
		byKind[s.Kind] = s
	}
	return slices.SortedFunc(maps.Values(byKind), func(a, b Stats) int { return cmp.Compare(a.Kind.String(), b.Kind.String()) })
}

func (k *kindQueue) stats() Stats {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := Stats{Kind: k.controller.Kind.GroupKind(), Depth: k.depth(), Active: k.running.total + k.calls.total, Retries: k.failing}
	for p := range k.waiting {
		if since := k.waiting[p].oldest(); !since.IsZero() && (out.Since.IsZero() || since.Before(out.Since)) {
			out.Since = since
		}
	}
	return out
}

func (k *kindQueue) isIdle(until time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.depth()+k.running.total+k.calls.total > 0 {
		return false
	}
	for _, it := range k.items {
		if it.delayed != nil && it.delayed.due.Before(until) {
			return false
		}
	}
	return true
}

// Kinds are the kinds that controllers run for, in no order.
func (e *Engine) Kinds() []schema.GroupVersionKind {
	kinds := map[schema.GroupVersionKind]struct{}{}
	for _, k := range e.all() {
		kinds[k.controller.Kind] = struct{}{}
	}
	return slices.Collect(maps.Keys(kinds))
}

// Collector reports, for each kind that is served, how much there is to do.
func (e *Engine) Collector() prometheus.Collector { return collector{e} }

type collector struct{ engine *Engine }

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
	for _, s := range c.engine.Stats() {
		gauge := func(d *prometheus.Desc, v int) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), s.Kind.Group, s.Kind.Kind)
		}
		gauge(depthDesc, s.Depth)
		gauge(activeDesc, s.Active)
		gauge(retriesDesc, s.Retries)
	}
}
