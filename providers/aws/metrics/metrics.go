// Package metrics counts the calls to AWS. What the accounts and clients report comes in, and collectors for the
// metrics server go out. docs/metrics.md describes the metrics.
package metrics

import (
	"context"
	"errors"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go/middleware"
	"github.com/prometheus/client_golang/prometheus"
	served "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Metrics count calls. All labels have few values: none of them is a text that an endpoint returns. Nil counts
// nothing.
type Metrics struct {
	calls     *prometheus.CounterVec
	durations *prometheus.HistogramVec
	waits     *prometheus.HistogramVec
	reads     *prometheus.CounterVec
	limits    limits
}

// New returns metrics without samples. State returns the limiters that are in use, in the same order as long as none
// ends.
func New(state func() []Limit) *Metrics {
	m := &Metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "espalier_aws_calls_total",
			Help: "Calls of AWS's services, by service, operation and the class of the response's HTTP status code.",
		}, []string{"service", "operation", "code"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "espalier_aws_call_duration_seconds",
			Help:    "How long calls of AWS's services took, by service and operation.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 14),
		}, []string{"service", "operation"}),
		waits: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "espalier_aws_limit_wait_seconds",
			Help:    "How long calls waited for the limit of their account and region, by whether they read or write.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 16),
		}, []string{"priority"}),
		reads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "espalier_aws_resources_read_total",
			Help: "Resources of AWS that were read, by whether a call read one of them (single) or many (together).",
		}, []string{"mode"}),
		limits: limits{state},
	}
	for _, mode := range []string{single, together} {
		m.reads.WithLabelValues(mode)
	}
	return m
}

// Collectors returns the collectors of all metrics.
func (m *Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.calls, m.durations, m.waits, m.reads, m.limits}
}

// Register registers the metrics with the registry that the metrics server serves. Of several providers in one
// process, as in tests, the last one is served.
func (m *Metrics) Register() {
	for _, c := range m.Collectors() {
		served.Registry.Unregister(c)
		served.Registry.MustRegister(c)
	}
}

const single, together = "single", "together"

// CountReads counts the resources that a call has read.
func (m *Metrics) CountReads(resources int, isTogether bool) {
	if m == nil {
		return
	}
	mode := single
	if isTogether {
		mode = together
	}
	m.reads.WithLabelValues(mode).Add(float64(resources))
}

// ObserveWait counts a call that has waited for the limit: for nothing too.
func (m *Metrics) ObserveWait(priority string, waited time.Duration) {
	if m != nil {
		m.waits.WithLabelValues(priority).Observe(waited.Seconds())
	}
}

// Middleware has the calls of a service client counted.
func (m *Metrics) Middleware(stack *middleware.Stack) error {
	if m == nil {
		return nil
	}
	// After the middleware of the client, which names the service and the operation.
	return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("CountCalls",
		func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
			began := time.Now()
			out, metadata, err := next.HandleInitialize(ctx, in)
			service, operation := awsmiddleware.GetServiceID(ctx), awsmiddleware.GetOperationName(ctx)
			m.calls.WithLabelValues(service, operation, class(err)).Inc()
			m.durations.WithLabelValues(service, operation).Observe(time.Since(began).Seconds())
			return out, metadata, err
		}), middleware.After)
}

// class is the class of a response's HTTP status code: 2xx, 4xx, and so on; "none" for a call without a response, which
// might not have been sent.
func class(err error) string {
	if err == nil {
		return "2xx"
	}
	var response *awshttp.ResponseError
	if !errors.As(err, &response) {
		return "none"
	}
	switch code := response.HTTPStatusCode(); {
	case code >= 500:
		return "5xx"
	case code >= 400:
		return "4xx"
	case code >= 300:
		return "3xx"
	case code >= 200:
		return "2xx" // with a body that cannot be read
	}
	return "none"
}
