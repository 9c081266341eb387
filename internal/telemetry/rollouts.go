package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Rollouts counts revisions of definitions and the events of their rollouts. A nil Rollouts
// counts nothing.
type Rollouts struct {
	issued prometheus.Counter
	events *prometheus.CounterVec
}

// rolloutEvents are the reasons of events. Their series begin at zero: Prometheus sees no increase
// in a series that begins with the first event.
var rolloutEvents = []string{
	"RolloutStarted", "RolloutWave", "RolloutChanged", "RolloutStopped", "RolloutResumed", "RolloutComplete", "RolloutEnded", "RevisionServed",
}

// NewRollouts returns counters at zero.
func NewRollouts() *Rollouts {
	r := &Rollouts{
		issued: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "espalier_graph_revisions_issued_total",
			Help: "Number of revisions of graph definitions that were created.",
		}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "espalier_rollout_events_total",
			Help: "Events of rollouts of revisions, by reason: RolloutStarted, RolloutWave, RolloutChanged, RolloutStopped, RolloutResumed, RolloutComplete, RolloutEnded, and RevisionServed for what reached all instances at once.",
		}, []string{"event"}),
	}
	for _, event := range rolloutEvents {
		r.events.WithLabelValues(event)
	}
	return r
}

// CountIssued counts a revision that was created.
func (r *Rollouts) CountIssued() {
	if r != nil {
		r.issued.Inc()
	}
}

// CountEvent counts an event of a rollout by its reason.
func (r *Rollouts) CountEvent(event string) {
	if r != nil {
		r.events.WithLabelValues(event).Inc()
	}
}

// Describe implements prometheus.Collector.
func (r *Rollouts) Describe(to chan<- *prometheus.Desc) {
	r.issued.Describe(to)
	r.events.Describe(to)
}

// Collect implements prometheus.Collector.
func (r *Rollouts) Collect(to chan<- prometheus.Metric) {
	r.issued.Collect(to)
	r.events.Collect(to)
}
