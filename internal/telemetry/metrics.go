package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// Metrics are the metrics of reconciles, queues and the propagation of statuses.
type Metrics struct {
	reconciles  *prometheus.HistogramVec
	queueWaits  *prometheus.HistogramVec
	propagation *prometheus.HistogramVec
}

// NewMetrics returns metrics without samples.
func NewMetrics() *Metrics {
	return &Metrics{
		reconciles: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "espalier_reconcile_duration_seconds",
			Help:    "How long reconciles took, by the object's kind and the outcome.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}, []string{"group", "kind", "outcome"}),
		queueWaits: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "espalier_queue_wait_seconds",
			Help:    "How long a request waited in the queue until its reconcile began, by the object's kind.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 18),
		}, []string{"group", "kind"}),
		propagation: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "espalier_status_propagation_seconds",
			Help:    "How long values took from the status of an instance to the status of its parent instance, by both kinds.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
		}, []string{"below", "above"}),
	}
}

// Collectors returns the collectors of all metrics.
func (m *Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.reconciles, m.queueWaits, m.propagation}
}

// Register registers the metrics, and further collectors, with the registry that the metrics
// server serves. Of several programs in one process, as in tests, the last one is served.
func (m *Metrics) Register(more ...prometheus.Collector) {
	for _, c := range append(m.Collectors(), more...) {
		metrics.Registry.Unregister(c) // of another program in this process
		metrics.Registry.MustRegister(c)
	}
}

// Observe counts one reconcile.
func (m *Metrics) Observe(p reconcile.Run) {
	m.reconciles.WithLabelValues(p.Kind.Group, p.Kind.Kind, p.Outcome()).Observe(p.Took.Seconds())
	m.queueWaits.WithLabelValues(p.Kind.Group, p.Kind.Kind).Observe(p.Waited.Seconds())
}

// ObservePropagation counts how long a value took from the status of one kind to the status of the kind above. There
// are as many pairs of labels as nested kinds.
func (m *Metrics) ObservePropagation(below, above schema.GroupKind, took time.Duration) {
	m.propagation.WithLabelValues(below.String(), above.String()).Observe(took.Seconds())
}
