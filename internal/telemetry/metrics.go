package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/espalier-dev/espalier/internal/outcome"
)

// Metrics are what the program counts about its own work.
type Metrics struct {
	passes *prometheus.HistogramVec
}

// NewMetrics returns metrics that count nothing yet.
func NewMetrics() *Metrics {
	return &Metrics{passes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "espalier_reconcile_duration_seconds",
		Help:    "How long passes over one object took, by the object's kind and how they ended.",
		Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
	}, []string{"group", "kind", "outcome"})}
}

// Register makes the metrics known to the metrics server, with those of the
// given collectors.
func (m *Metrics) Register(more ...prometheus.Collector) {
	for _, c := range append([]prometheus.Collector{m.passes}, more...) {
		// A second controller in one process, as in tests, finds them there.
		_ = metrics.Registry.Register(c)
	}
}

// Observe counts one pass.
func (m *Metrics) Observe(kind schema.GroupVersionKind, took time.Duration, out outcome.Outcome) {
	ended := "done"
	switch {
	case out.Err != nil:
		ended = "failed"
	case out.After > 0:
		ended = "waiting"
	}
	m.passes.WithLabelValues(kind.Group, kind.Kind, ended).Observe(took.Seconds())
}
