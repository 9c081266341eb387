package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ExceededLimits counts how often instances exceeded a limit. A nil ExceededLimits counts
// nothing.
type ExceededLimits struct{ *prometheus.CounterVec }

// NewExceededLimits returns a counter at zero.
func NewExceededLimits() *ExceededLimits {
	return &ExceededLimits{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "espalier_limits_exceeded_total",
		Help: "Reconciles of instances that exceeded a limit, by the limit.",
	}, []string{"group", "kind", "limit"})}
}

// Count counts a reconcile of an instance of a kind that exceeded a limit.
func (e *ExceededLimits) Count(kind schema.GroupKind, limit string) {
	if e != nil {
		e.WithLabelValues(kind.Group, kind.Kind, limit).Inc()
	}
}
