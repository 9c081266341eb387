package telemetry_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/telemetry"
)

func TestPropagationIsMeasuredFromTheFirstUnreadWrite(t *testing.T) {
	noon := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return noon.Add(time.Duration(ms) * time.Millisecond) }
	l := telemetry.NewStatusPropagation(func(schema.GroupKind, schema.GroupKind, time.Duration) {})
	if _, was := l.RecordRead("a", at(0)); was {
		t.Error("a read without a write is measured")
	}
	l.RecordWrite("a", at(10))
	l.RecordWrite("a", at(20))
	l.RecordWrite("b", at(20))
	if _, was := l.RecordRead("a", at(5)); was {
		t.Error("a read before the write is measured")
	}
	if since, was := l.RecordRead("a", at(30)); !was || !since.Equal(at(10)) {
		t.Errorf("it was written at %s", since)
	}
	if _, was := l.RecordRead("a", at(40)); was {
		t.Error("one write is measured twice")
	}
	l.Forget("b")
	if _, was := l.RecordRead("b", at(40)); was {
		t.Error("a forgotten instance is measured")
	}
	var none *telemetry.StatusPropagation
	none.RecordWrite("a", at(0))
	none.Observe(schema.GroupKind{}, schema.GroupKind{}, time.Second)
	none.Forget("a")
	if _, was := none.RecordRead("a", at(1)); was {
		t.Error("nil measures")
	}
}
