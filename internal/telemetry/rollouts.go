package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Rollouts counts what becomes of the revisions of definitions. A nil Rollouts counts
// nothing.
type Rollouts struct {
	issued prometheus.Counter
	events *prometheus.CounterVec
}

// NewRollouts returns counters at zero.
func NewRollouts() *Rollouts {
	return &Rollouts{
		issued: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "espalier_graph_revisions_issued_total",
			Help: "How many revisions of graph definitions were made.",
		}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "espalier_rollout_events_total",
			Help: "What became of rollouts of revisions, by the reasons of their events: RolloutStarted, RolloutWave, RolloutChanged, RolloutStopped, RolloutResumed, RolloutComplete, RolloutEnded, and RevisionServed for what reached all instances at once.",
		}, []string{"event"}),
	}
}

// Issued counts a revision that was made.
func (r *Rollouts) Issued() {
	if r != nil {
		r.issued.Inc()
	}
}

// Happened counts an event of a rollout.
func (r *Rollouts) Happened(event string) {
	if r != nil {
		r.events.WithLabelValues(event).Inc()
	}
}

// Describe is of prometheus.Collector.
func (r *Rollouts) Describe(to chan<- *prometheus.Desc) {
	r.issued.Describe(to)
	r.events.Describe(to)
}

// Collect is of prometheus.Collector.
func (r *Rollouts) Collect(to chan<- prometheus.Metric) {
	r.issued.Collect(to)
	r.events.Collect(to)
}
