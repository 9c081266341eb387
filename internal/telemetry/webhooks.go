package telemetry

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Webhooks counts requests of webhooks. Its zero value, and nil, count nothing.
type Webhooks struct {
	requests *prometheus.CounterVec
}

// NewWebhooks returns metrics that the metrics server serves. Of several programs in one process
// the first one is served.
func NewWebhooks() *Webhooks {
	w := &Webhooks{requests: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "espalier_webhook_requests_total",
		Help: "Requests of the webhooks, by webhook and HTTP status code.",
	}, []string{"webhook", "code"})}
	// Prometheus sees no increase in a series that begins with the first refused request.
	for _, webhook := range []string{"admission", "conversion"} {
		for _, code := range []string{"403", "429", "503"} {
			w.requests.WithLabelValues(webhook, code)
		}
	}
	for _, collector := range w.Collectors() {
		_ = metrics.Registry.Register(collector) // fails for a second program in one process
	}
	return w
}

// Collectors returns the collectors of all metrics.
func (w *Webhooks) Collectors() []prometheus.Collector { return []prometheus.Collector{w.requests} }

// Observe counts a request of a webhook that was answered with an HTTP status code.
func (w *Webhooks) Observe(webhook string, code int) {
	if w == nil || w.requests == nil {
		return
	}
	w.requests.WithLabelValues(webhook, strconv.Itoa(code)).Inc()
}
