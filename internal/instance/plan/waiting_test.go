package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/instance/plan"
)

func TestWaitingIsBoundedAndSaysSo(t *testing.T) {
	var waits []plan.Wait
	for i := range 40 {
		waits = append(waits, plan.Wait{Node: "a", On: fmt.Sprintf("x.status.f%d", i), Reason: plan.WaitingForField, Since: now})
	}
	if got := plan.Waiting(waits, now); len(got) != 40 || got[39].On != "x.status.f39" || got[39].Attempts != 1 || got[39].Reason != "WaitingForField" {
		t.Errorf("got %v", got)
	}
	for i := range 40 {
		waits = append(waits, plan.Wait{Node: "b", On: fmt.Sprintf("x.status.f%d", i), Reason: plan.WaitingForField, Since: now})
	}
	waits = append(waits, plan.Wait{Node: "c", On: "x.status.slow", Reason: plan.WaitingForField, Since: now, Timeout: time.Minute})
	got := plan.Waiting(waits, now)
	if len(got) != 50 {
		t.Fatalf("%d entries", len(got))
	}
	var ends []string
	for _, w := range append(got[:4:4], got[48:]...) {
		ends = append(ends, w.Node+": "+w.On)
	}
	want := []string{
		"c: x.status.slow", "a: x.status.f0", "b: x.status.f0", "a: x.status.f1",
		"b: x.status.f7", "b: 32 more, of this and other resources",
	}
	if diff := cmp.Diff(want, ends); diff != "" {
		t.Error(diff)
	}
}
