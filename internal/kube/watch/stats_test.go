package watch

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func TestStatsAndMetrics(t *testing.T) {
	sc := newScript(made(configMap, "a/x", 1, partOf, "o"), made(configMap, "a/y", 2))
	withScriptedHub(t, scripts{configMap: sc}, func(t *testing.T, s *scriptedHub) {
		s.commit("i", ChildrenOf(configMap, "o"), Child(vpc, "a", "x"))
		s.commit("j", Object(configMap, "a", "y"), Object(configMap, "a", "z"))
		synctest.Wait()
		var got []string
		for _, k := range s.Stats() {
			got = append(got, strings.Join([]string{k.Kind.Kind, k.Selection, string(k.State.Phase), string(k.State.Reason)}, " "))
		}
		want := []string{
			"ConfigMap managed Synced ", "ConfigMap one a/y Synced ", "ConfigMap one a/z Synced ",
			"Vpc managed Unavailable WaitingForKind",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}

		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(NewCollector(func() []*Hub { return []*Hub{s.Hub} }))
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				labels := []string{f.GetName()}
				for _, l := range m.GetLabel() {
					labels = append(labels, l.GetValue())
				}
				values[strings.Join(labels, " ")] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
		metrics := map[string]float64{
			"espalier_watch_watches  ConfigMap  managed Synced v1":                           1,
			"espalier_watch_watches  ConfigMap  one Synced v1":                               2,
			"espalier_watch_watches kro.run Vpc WaitingForKind managed Unavailable v1alpha1": 1,
			"espalier_watch_subscribers  ConfigMap managed v1":                               1,
			"espalier_watch_subscribers  ConfigMap one v1":                                   2,
			"espalier_watch_subscribers kro.run Vpc managed v1alpha1":                        1,
		}
		for series, want := range metrics {
			if got, ok := values[series]; !ok || got != want {
				t.Errorf("%s is %v, want %v", series, got, want)
			}
		}
	})
}
