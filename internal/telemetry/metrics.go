package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/espalier-dev/espalier/internal/reconcile"
)

// Metrics are what the program counts about its own work.
type Metrics struct {
	passes *prometheus.HistogramVec
	waited *prometheus.HistogramVec
	layers *prometheus.HistogramVec
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
		layers: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "espalier_status_propagation_seconds",
			Help:    "How long values took from the status of an instance to that of the one above it, by the kinds of both.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
		}, []string{"below", "above"}),
	}
}

// Collectors are those of the metrics.
func (m *Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.passes, m.waited, m.layers}
}

// Register makes the metrics known to the metrics server, with those of the
// given collectors. Of several programs in one process, as in tests, the last is reported.
func (m *Metrics) Register(more ...prometheus.Collector) {
	for _, c := range append(m.Collectors(), more...) {
		metrics.Registry.Unregister(c) // what has the same names
		metrics.Registry.MustRegister(c)
	}
}

// Observe counts one pass.
func (m *Metrics) Observe(p reconcile.Run) {
	ended := "done"
	switch {
	case p.Err != nil:
		ended = "failed"
	case p.RequeueAfter > 0:
		ended = "waiting"
	}
	m.passes.WithLabelValues(p.Kind.Group, p.Kind.Kind, ended).Observe(p.Took.Seconds())
	m.waited.WithLabelValues(p.Kind.Group, p.Kind.Kind).Observe(p.Waited.Seconds())
}

// Propagated counts one value's way from one layer to the next. There are as many pairs as
// kinds that definitions nest in one another.
func (m *Metrics) Propagated(below, above schema.GroupKind, took time.Duration) {
	m.layers.WithLabelValues(below.String(), above.String()).Observe(took.Seconds())
}
