package telemetry

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// MetricsRequests counts requests of the metrics server that are authenticated. Nil counts nothing.
type MetricsRequests struct {
	requests *prometheus.CounterVec
}

// NewMetricsRequests returns metrics that the metrics server serves. Of several programs in one
// process the first one is served.
func NewMetricsRequests() *MetricsRequests {
	r := &MetricsRequests{requests: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "espalier_metrics_requests_total",
		Help: "Requests of the metrics server with --metrics-secure, by HTTP status code.",
	}, []string{"code"})}
	for _, collector := range r.Collectors() {
		_ = metrics.Registry.Register(collector) // fails for a second program in one process
	}
	return r
}

// Collectors returns the collectors of all metrics.
func (r *MetricsRequests) Collectors() []prometheus.Collector {
	return []prometheus.Collector{r.requests}
}

// Observe counts a request that was answered with an HTTP status code.
func (r *MetricsRequests) Observe(code int) {
	if r != nil {
		r.requests.WithLabelValues(strconv.Itoa(code)).Inc()
	}
}
