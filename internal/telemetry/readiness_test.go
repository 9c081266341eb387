package telemetry_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/telemetry"
)

func TestReadinessIsCounted(t *testing.T) {
	with := func(kind, status string, deleting bool) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		if kind != "" {
			o.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": kind, "status": status}}}
		}
		if deleting {
			now := metav1.Now()
			o.SetDeletionTimestamp(&now)
		}
		return o
	}
	vpc := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Vpc"}
	other := schema.GroupVersionKind{Group: "example.com", Version: "v2", Kind: "Vpc"} // another version while one stops
	definition := schema.GroupVersionKind{Group: "apiextensions.crossplane.io", Version: "v1", Kind: "CompositeResourceDefinition"}
	objects := map[schema.GroupVersionKind][]*unstructured.Unstructured{
		vpc:        {with("Ready", "True", false), with("Ready", "True", true), with("Ready", "False", false), with("", "", false)},
		definition: {with("Established", "True", false)},
	}
	c := telemetry.NewReadiness(
		func() []schema.GroupVersionKind { return []schema.GroupVersionKind{vpc, other, definition} },
		func(gvk schema.GroupVersionKind) []*unstructured.Unstructured { return objects[gvk] })
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := []string{f.GetName()}
			for _, l := range m.GetLabel() { // in the order of their names
				labels = append(labels, l.GetValue())
			}
			got[strings.Join(labels, " ")] = m.GetGauge().GetValue()
		}
	}
	want := map[string]float64{
		"espalier_objects apiextensions.crossplane.io CompositeResourceDefinition False":    0,
		"espalier_objects apiextensions.crossplane.io CompositeResourceDefinition True":     1,
		"espalier_objects apiextensions.crossplane.io CompositeResourceDefinition Unknown":  0,
		"espalier_objects example.com Vpc False":                                            1,
		"espalier_objects example.com Vpc True":                                             2,
		"espalier_objects example.com Vpc Unknown":                                          1,
		"espalier_objects_deleting apiextensions.crossplane.io CompositeResourceDefinition": 0,
		"espalier_objects_deleting example.com Vpc":                                         1,
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}
