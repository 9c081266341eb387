package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/espalier-dev/espalier/internal/kube/rbac"
)

// Missing are rights that somebody needs and hasn't got.
type Missing struct {
	// User is who that is.
	User string
	// Namespace and Definition name the definition that they are needed for; empty for what
	// the controllers need in every cluster.
	Namespace, Definition string
	Needs                 []rbac.Need
}

// NewPermissions reports the rights that are missing. Where there are none, there are no
// series.
func NewPermissions(missing func() []Missing) prometheus.Collector { return permissions{missing} }

type permissions struct{ missing func() []Missing }

var missingDesc = prometheus.NewDesc("espalier_missing_permissions",
	"Rights that are needed and not granted, by who lacks them, the definition that they are needed for, if it is one, verb and resource.",
	[]string{"user", "namespace", "definition", "verb", "group", "resource"}, nil)

// Describe implements prometheus.Collector.
func (permissions) Describe(out chan<- *prometheus.Desc) { out <- missingDesc }

// Collect implements prometheus.Collector.
func (p permissions) Collect(out chan<- prometheus.Metric) {
	type series struct{ user, namespace, definition, verb, group, resource string }
	counts := map[series]int{} // the same may be missing for several objects
	for _, m := range p.missing() {
		for _, n := range m.Needs {
			counts[series{m.User, m.Namespace, m.Definition, n.Verb, n.Group, n.Resource}]++
		}
	}
	for s, n := range counts {
		out <- prometheus.MustNewConstMetric(missingDesc, prometheus.GaugeValue, float64(n), s.user, s.namespace, s.definition, s.verb, s.group, s.resource)
	}
}
