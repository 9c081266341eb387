package observe_test

import (
	"strings"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/observe"
)

// The annotation force-delete has no effect on an instance's own protection and on pruned
// objects, so it is not advised.
func TestAdviceHasAnEffect(t *testing.T) {
	at := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	itself := report.Object{APIVersion: "a/v1", Kind: "Vpc", Namespace: "prod", Name: "main"}
	other := report.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "prod", Name: "c"}
	top := func() observe.Node {
		return observe.Node{APIVersion: "a/v1", Kind: "Vpc", Namespace: "prod", Name: "main", Exists: true, Instance: true, Deleted: &at}
	}
	protected, pruning := top(), top()
	protected.Deletion = &report.Deletion{StartedAt: report.At(at), Blocked: 1, Blockers: []report.Blocker{{BlockedObject: report.BlockedObject{Object: itself, Reason: report.Protected, Since: report.At(at)}}}}
	pruning.Deleted = nil
	pruning.Pruning = []report.Blocker{{Node: "c", BlockedObject: report.BlockedObject{Object: other, Reason: report.HeldByFinalizer, Since: report.At(at)}}}
	for name, n := range map[string]observe.Node{"the instance's own protection": protected, "a pruned object": pruning} {
		for _, b := range observe.FindBlockers(n).Blockers {
			for _, advice := range b.Advice {
				if strings.Contains(advice, "force-delete") {
					t.Errorf("%s: %s", name, advice)
				}
			}
		}
	}
}
