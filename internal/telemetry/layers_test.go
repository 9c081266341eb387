package telemetry_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/telemetry"
)

func TestALayerIsMeasuredFromTheFirstWriteThatNobodyHasSeen(t *testing.T) {
	noon := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return noon.Add(time.Duration(ms) * time.Millisecond) }
	l := telemetry.NewLayers(func(schema.GroupKind, schema.GroupKind, time.Duration) {})
	if _, was := l.Taken("a", at(0)); was {
		t.Error("something is taken up that was never written")
	}
	l.Wrote("a", at(10))
	l.Wrote("a", at(20))
	l.Wrote("b", at(20))
	if _, was := l.Taken("a", at(5)); was {
		t.Error("who looked before the write has taken it up")
	}
	if since, was := l.Taken("a", at(30)); !was || !since.Equal(at(10)) {
		t.Errorf("it was written at %s", since)
	}
	if _, was := l.Taken("a", at(40)); was {
		t.Error("it is taken up twice")
	}
	l.Forget("b")
	if _, was := l.Taken("b", at(40)); was {
		t.Error("what is gone is taken up")
	}
	var none *telemetry.Layers
	none.Wrote("a", at(0))
	none.Observe(schema.GroupKind{}, schema.GroupKind{}, time.Second)
	none.Forget("a")
	if _, was := none.Taken("a", at(1)); was {
		t.Error("nobody measures, and something is taken up")
	}
}
