package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Conversions counts objects that were converted between versions of their kind. Its zero
// value, and nil, count nothing.
type Conversions struct {
	objects *prometheus.CounterVec
	took    *prometheus.HistogramVec
}

// NewConversions returns metrics that the metrics server serves. Of several programs in one
// process the first one is served.
func NewConversions() *Conversions {
	c := &Conversions{
		objects: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "espalier_conversions_total",
			Help: "Objects that the conversion webhook converted, by kind, requested version and outcome.",
		}, []string{"group", "kind", "version", "outcome"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "espalier_conversion_duration_seconds",
			Help:    "How long conversion reviews took, by the objects' kind.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 18),
		}, []string{"group", "kind"}),
	}
	// A second program in one process, as in tests, fails to register: the first is served.
	for _, collector := range c.Collectors() {
		_ = metrics.Registry.Register(collector)
	}
	return c
}

// Collectors returns the collectors of all metrics.
func (c *Conversions) Collectors() []prometheus.Collector {
	return []prometheus.Collector{c.objects, c.took}
}

// Observe counts one conversion review for objects of a kind: all were converted or, if one
// failed, none.
func (c *Conversions) Observe(kind schema.GroupKind, version string, converted int, failed bool, took time.Duration) {
	if c == nil || c.objects == nil {
		return
	}
	// Both series begin with the first review: Prometheus sees no increase in one that begins with the first failure.
	succeeded, failures := c.objects.WithLabelValues(kind.Group, kind.Kind, version, "converted"),
		c.objects.WithLabelValues(kind.Group, kind.Kind, version, "failed")
	if failed {
		failures.Inc()
	} else {
		succeeded.Add(float64(converted))
	}
	c.took.WithLabelValues(kind.Group, kind.Kind).Observe(took.Seconds())
}
