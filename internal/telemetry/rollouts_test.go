package telemetry_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/espalier-dev/espalier/internal/serving/revision"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

func TestRolloutsAreCounted(t *testing.T) {
	var none *telemetry.Rollouts
	none.CountIssued() // nil counts nothing
	none.CountEvent("RolloutStarted")

	r, registry := telemetry.NewRollouts(), prometheus.NewPedanticRegistry()
	if err := registry.Register(r); err != nil {
		t.Fatal(err)
	}
	r.CountIssued()
	r.CountEvent("RolloutStarted")
	r.CountEvent("RolloutStopped")
	r.CountEvent("RolloutStopped")
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = m.GetCounter().GetValue()
		}
	}
	for name, want := range map[string]float64{
		"espalier_graph_revisions_issued_total": 1, "espalier_rollout_events_total RolloutStarted": 1, "espalier_rollout_events_total RolloutStopped": 2,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, not %v", name, got[name], want)
		}
	}
	for _, event := range []string{
		revision.RolloutWave, revision.RolloutChanged, revision.RolloutResumed, revision.RolloutComplete, revision.RolloutEnded, revision.Served,
	} {
		if n, exists := got["espalier_rollout_events_total "+event]; !exists || n != 0 {
			t.Errorf("the series of %s does not begin at zero", event)
		}
	}
	if n := len(got); n != 9 {
		t.Errorf("%d series: %v", n, got)
	}
}
