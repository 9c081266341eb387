package watch

import (
	"github.com/prometheus/client_golang/prometheus"
)

// NewCollector reports the Stats of hubs as metrics. Watches of single objects and of label selections are summed up by
// kind, as are several hubs, so their number does not grow the number of series.
func NewCollector(hubs func() []*Hub) prometheus.Collector { return collector{hubs} }

type collector struct{ hubs func() []*Hub }

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("espalier_watch_"+name, help,
		append([]string{"group", "version", "kind", "selection"}, labels...), nil)
}

var (
	watchesDesc     = describe("watches", "Watches by state and, where unavailable, reason.", "state", "reason")
	subscribersDesc = describe("subscribers", "Instances and controllers that a watch notifies.")
	objectsDesc     = describe("objects", "Objects in the cache.")
	eventsDesc      = describe("events_total", "Changes seen since the watch of the kind began.")
	ageDesc         = describe("age_seconds", "Age of the oldest watch.")
)

// series are the labels that all metrics have in common.
type series struct{ group, version, kind, class string }

// Describe implements prometheus.Collector.
func (collector) Describe(out chan<- *prometheus.Desc) {
	out <- watchesDesc
	out <- subscribersDesc
	out <- objectsDesc
	out <- eventsDesc
	out <- ageDesc
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	type states struct {
		series
		phase  Phase
		reason Reason
	}
	type sums struct{ subscribers, objects, events, age float64 }
	watches, totals := map[states]float64{}, map[series]sums{}
	var all []KindStats
	for _, hub := range c.hubs() {
		all = append(all, hub.Stats()...)
		for of, events := range hub.endedEvents() {
			totals[of] = sums{events: totals[of].events + float64(events)}
		}
	}
	for _, s := range all {
		of := series{s.Kind.Group, s.Kind.Version, s.Kind.Kind, s.Class}
		watches[states{of, s.State.Phase, s.State.Reason}]++
		t := totals[of]
		t.subscribers += float64(s.Subscribers)
		t.objects += float64(s.Objects)
		t.events += float64(s.Events)
		t.age = max(t.age, s.Age.Seconds())
		totals[of] = t
	}
	gauge := func(d *prometheus.Desc, v float64, of series, more ...string) {
		labels := append([]string{of.group, of.version, of.kind, of.class}, more...)
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for of, n := range watches {
		gauge(watchesDesc, n, of.series, string(of.phase), string(of.reason))
	}
	for of, t := range totals {
		gauge(subscribersDesc, t.subscribers, of)
		gauge(objectsDesc, t.objects, of)
		gauge(ageDesc, t.age, of)
		out <- prometheus.MustNewConstMetric(eventsDesc, prometheus.CounterValue, t.events,
			of.group, of.version, of.kind, of.class)
	}
}
