package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/espalier-dev/espalier/internal/kube/rbac"
)

// missingPermissions are permissions that a user needs and does not have.
type missingPermissions struct {
	// User is the user as RBAC names it.
	User string
	// Namespace and Definition name the definition that needs them; empty for what the
	// controllers need in every cluster.
	Namespace, Definition string
	Needs                 []rbac.Permission
}

// newPermissionCollector reports the permissions that are missing. If none is, there are no series.
func newPermissionCollector(missing func() []missingPermissions) prometheus.Collector {
	return permissionCollector{missing}
}

type permissionCollector struct{ missing func() []missingPermissions }

var missingDesc = prometheus.NewDesc("espalier_missing_permissions",
	"Permissions that are needed and not granted, by user, the definition that needs them, if any, verb and resource.",
	[]string{"user", "namespace", "definition", "verb", "group", "resource"}, nil)

// Describe implements prometheus.Collector.
func (permissionCollector) Describe(out chan<- *prometheus.Desc) { out <- missingDesc }

// Collect implements prometheus.Collector.
func (p permissionCollector) Collect(out chan<- prometheus.Metric) {
	type series struct{ user, namespace, definition, verb, group, resource string }
	counts := map[series]int{} // several objects may lack the same one
	for _, m := range p.missing() {
		for _, n := range m.Needs {
			counts[series{m.User, m.Namespace, m.Definition, n.Verb, n.Group, n.Resource}]++
		}
	}
	for s, n := range counts {
		out <- prometheus.MustNewConstMetric(missingDesc, prometheus.GaugeValue, float64(n), s.user, s.namespace, s.definition, s.verb, s.group, s.resource)
	}
}
