package plan_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/instance/plan"
)

func TestAttemptsKnowSinceWhenAChildIsUnchanged(t *testing.T) {
	later, last := now.Add(time.Second), now.Add(2*time.Second)
	child := left("a", layer(0))
	child.SetResourceVersion("1")
	attempts := plan.DeletionAttempts{}.Observed(child, now)
	if diff := cmp.Diff(plan.DeletionAttempts{FirstSeen: now, ChangedAt: now, ResourceVersion: "1"}, attempts); diff != "" {
		t.Error("first: " + diff)
	}
	if diff := cmp.Diff(attempts, attempts.Observed(child, later)); diff != "" {
		t.Error("unchanged: " + diff)
	}
	child.SetResourceVersion("2")
	if diff := cmp.Diff(plan.DeletionAttempts{FirstSeen: now, ChangedAt: last, ResourceVersion: "2"}, attempts.Observed(child, last)); diff != "" {
		t.Error("changed: " + diff)
	}
}
