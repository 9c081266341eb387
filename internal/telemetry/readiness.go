package telemetry

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/condition"
)

// NewReadiness reports how many objects of the served kinds there are, by their readiness, and how many of them are
// being deleted. It counts all objects at each scrape, so the numbers cannot drift.
func NewReadiness(kinds func() []schema.GroupVersionKind, objects func(schema.GroupVersionKind) []*unstructured.Unstructured) prometheus.Collector {
	return readiness{kinds, objects}
}

type readiness struct {
	kinds   func() []schema.GroupVersionKind
	objects func(schema.GroupVersionKind) []*unstructured.Unstructured
}

var (
	objectsDesc = prometheus.NewDesc("espalier_objects",
		"Definitions, instances and managed resources, by kind and the status of their Ready condition; of definitions of composites Established, of functions Healthy.",
		[]string{"group", "kind", "ready"}, nil)
	deletingDesc = prometheus.NewDesc("espalier_objects_deleting",
		"Objects of espalier_objects that are being deleted.", []string{"group", "kind"}, nil)
)

// Describe implements prometheus.Collector.
func (readiness) Describe(out chan<- *prometheus.Desc) {
	out <- objectsDesc
	out <- deletingDesc
}

// Collect implements prometheus.Collector.
func (r readiness) Collect(out chan<- prometheus.Metric) {
	type series struct {
		schema.GroupKind
		ready metav1.ConditionStatus
	}
	ready, deleting := map[series]int{}, map[schema.GroupKind]int{}
	for _, gvk := range r.kinds() {
		gk := gvk.GroupKind()
		for _, status := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown} {
			ready[series{gk, status}] += 0 // alerts need a series that is 0
		}
		deleting[gk] += 0
		for _, o := range r.objects(gvk) {
			ready[series{gk, readyStatus(o)}]++
			if o.GetDeletionTimestamp() != nil {
				deleting[gk]++
			}
		}
	}
	for s, n := range ready {
		out <- prometheus.MustNewConstMetric(objectsDesc, prometheus.GaugeValue, float64(n), s.Group, s.Kind, string(s.ready))
	}
	for gk, n := range deleting {
		out <- prometheus.MustNewConstMetric(deletingDesc, prometheus.GaugeValue, float64(n), gk.Group, gk.Kind)
	}
}

// IsReady reports whether the condition that sums up an object is true.
func IsReady(o *unstructured.Unstructured) bool { return readyStatus(o) == metav1.ConditionTrue }

// summaries are the conditions that sum up an object; the first one counts.
var summaries = []string{"Ready", "Established", "Healthy"}

// ReportsReadiness reports whether an object has a condition that sums it up.
func ReportsReadiness(o *unstructured.Unstructured) bool {
	set := condition.Read(o)
	return slices.ContainsFunc(summaries, func(kind string) bool { _, has := set.Get(kind); return has })
}

// It is Unknown if the object has no condition that sums it up.
func readyStatus(o *unstructured.Unstructured) metav1.ConditionStatus {
	set := condition.Read(o)
	for _, kind := range summaries {
		c, ok := set.Get(kind)
		if ok && (c.Status == metav1.ConditionTrue || c.Status == metav1.ConditionFalse) {
			return c.Status
		}
	}
	return metav1.ConditionUnknown
}
