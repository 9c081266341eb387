package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/espalier-dev/espalier/internal/outcome"
)

// Metrics are what the program counts about its own work.
type Metrics struct {
	passes *prometheus.HistogramVec
	waited *prometheus.HistogramVec
}

// NewMetrics returns metrics that count nothing yet.
func NewMetrics() *Metrics {
	return &Metrics{
		passes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "espalier_reconcile_duration_seconds",
			Help:    "How long passes over one object took, by the object's kind and how they ended.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}, []string{"group", "kind", "outcome"}),
		waited: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "espalier_queue_wait_seconds",
			Help:    "How long an event waited for the pass over its object to begin, by the object's kind.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 18),
		}, []string{"group", "kind"}),
	}
}

// Register makes the metrics known to the metrics server, with those of the
// given collectors.
func (m *Metrics) Register(more ...prometheus.Collector) {
	for _, c := range append([]prometheus.Collector{m.passes, m.waited}, more...) {
		// A second controller in one process, as in tests, finds them there.
		_ = metrics.Registry.Register(c)
	}
}

// Observe counts one pass.
func (m *Metrics) Observe(p outcome.Pass) {
	ended := "done"
	switch {
	case p.Err != nil:
		ended = "failed"
	case p.After > 0:
		ended = "waiting"
	}
	m.passes.WithLabelValues(p.Kind.Group, p.Kind.Kind, ended).Observe(p.Took.Seconds())
	m.waited.WithLabelValues(p.Kind.Group, p.Kind.Kind).Observe(p.Waited.Seconds())
}
