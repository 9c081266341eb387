package report_test

import (
	"testing"

	"github.com/espalier-dev/espalier/internal/instance/report"
)

func TestNewBlockers(t *testing.T) {
	blocker := func(name string, reason report.Reason, change ...func(*report.Blocker)) report.Blocker {
		b := report.Blocker{BlockedObject: report.BlockedObject{Object: report.Object{Kind: "ConfigMap", Name: name}, Reason: reason}}
		for _, c := range change {
			c(&b)
		}
		return b
	}
	progress := func(b *report.Blocker) { b.InProgress = true }
	causedBy := func(cause report.BlockedObject) func(*report.Blocker) {
		return func(b *report.Blocker) { b.Cause = &cause }
	}
	vpc, subnet := report.Object{Kind: "Vpc", Name: "v"}, report.Object{Kind: "Subnet", Name: "s"}
	cases := map[string]struct {
		before, after report.Blocker
		isNew         bool
	}{
		"The same blocker":                          {blocker("a", report.HeldByFinalizer), blocker("a", report.HeldByFinalizer), false},
		"Another object":                            {blocker("b", report.HeldByFinalizer), blocker("a", report.HeldByFinalizer), true},
		"Another reason":                            {blocker("a", report.HeldByFinalizer), blocker("a", report.DeniedByWebhook), true},
		"Another cause":                             {blocker("a", report.ChildBlocked, causedBy(report.BlockedObject{Object: vpc})), blocker("a", report.ChildBlocked, causedBy(report.BlockedObject{Object: subnet})), true},
		"Another reason of the cause":               {blocker("a", report.ChildBlocked, causedBy(report.BlockedObject{Object: vpc, Reason: report.Protected})), blocker("a", report.ChildBlocked, causedBy(report.BlockedObject{Object: vpc, Reason: report.Forbidden})), true},
		"A blocker that is still in progress":       {blocker("a", report.ExternalDeletion, progress), blocker("a", report.ExternalDeletion, progress), false},
		"A blocker that isn't in progress any more": {blocker("a", report.ExternalDeletion, progress), blocker("a", report.ExternalDeletion), true},
		"A blocker that is in progress now":         {blocker("a", report.ExternalDeletion), blocker("a", report.ExternalDeletion, progress), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := report.NewBlockers([]report.Blocker{tc.before}, []report.Blocker{tc.after}); len(got) == 1 != tc.isNew {
				t.Errorf("got %v", got)
			}
		})
	}
}
