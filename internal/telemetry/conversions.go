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

// NewConversions returns metrics that the metrics server knows. Of several in one process
// the first is known.
func NewConversions() *Conversions {
	c := &Conversions{
		objects: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "espalier_conversions_total",
			Help: "Objects that the API server had converted, by their kind, the version that was wanted and how it ended.",
		}, []string{"group", "kind", "version", "outcome"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "espalier_conversion_duration_seconds",
			Help:    "How long answers to the API server took that asked for a conversion, by the objects' kind.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 18),
		}, []string{"group", "kind"}),
	}
	// A second program in one process, as in tests, finds them there.
	for _, collector := range c.Collectors() {
		_ = metrics.Registry.Register(collector)
	}
	return c
}

// Collectors are those of the metrics.
func (c *Conversions) Collectors() []prometheus.Collector {
	return []prometheus.Collector{c.objects, c.took}
}

// Observe counts one answer about objects of a kind: so many were converted, or one
// wasn't, and with it none.
func (c *Conversions) Observe(kind schema.GroupKind, version string, converted int, failed bool, took time.Duration) {
	if c == nil || c.objects == nil {
		return
	}
	if failed {
		c.objects.WithLabelValues(kind.Group, kind.Kind, version, "failed").Inc()
	} else {
		c.objects.WithLabelValues(kind.Group, kind.Kind, version, "converted").Add(float64(converted))
	}
	c.took.WithLabelValues(kind.Group, kind.Kind).Observe(took.Seconds())
}
