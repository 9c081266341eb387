package telemetry_test

import (
	"maps"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/telemetry"
)

// counters returns the values of the counters of a metric, by the values of their labels.
func counters(t *testing.T, metric string, collectors []prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	for _, c := range collectors {
		if err := registry.Register(c); err != nil {
			t.Fatal(err)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := ""
			for _, l := range m.GetLabel() {
				labels += l.GetValue() + " "
			}
			if f.GetName() == metric {
				got[labels] = m.GetCounter().GetValue()
			}
		}
	}
	return got
}

// TestAlertedSeriesBeginAtZero checks the series that the alerts of the chart compute increases of.
func TestAlertedSeriesBeginAtZero(t *testing.T) {
	webhooks := counters(t, "espalier_webhook_requests_total", telemetry.NewWebhooks().Collectors())
	want := map[string]float64{
		"403 admission ": 0, "429 admission ": 0, "503 admission ": 0, "403 conversion ": 0, "429 conversion ": 0, "503 conversion ": 0,
	}
	if !maps.Equal(webhooks, want) {
		t.Errorf("requests of webhooks: %v", webhooks)
	}

	conversions := telemetry.NewConversions()
	conversions.Observe(schema.GroupKind{Group: "example.org", Kind: "Site"}, "v2", 3, false, time.Millisecond)
	got := counters(t, "espalier_conversions_total", conversions.Collectors())
	if want := map[string]float64{"example.org Site converted v2 ": 3, "example.org Site failed v2 ": 0}; !maps.Equal(got, want) {
		t.Errorf("conversions: %v", got)
	}
}
