package cli

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/observe"
)

func TestBlockersAreFoundThreeLayersBelow(t *testing.T) {
	l := newLayers(t)
	l.nest(t)
	want := `Layer NS/top is being deleted: 1 of 2 removed, 1 blocked; started 0s ago

OBJECT             REASON     SINCE  MESSAGE
ConfigMap NS/data  Finalizer  0s     held by finalizer example.com/guard, added by ops

ConfigMap NS/data
  in Layer NS/top > Layer NS/middle > Layer NS/low
  - ops set finalizer example.com/guard and must remove it
  - to finish the deletion without it and leave it behind: kubectl annotate layer.` + l.kind.Group + ` low -n NS espalier.dev/force-delete=the-data
`
	t.Run("for people", func(t *testing.T) {
		code, out, errs := l.call(t, "blockers", "top")
		if code != 3 || errs != "" {
			t.Errorf("exit code %d, %q", code, errs)
		}
		out = age.ReplaceAllString(strings.ReplaceAll(out, l.namespace, "NS"), "0s")
		if diff := cmp.Diff(squeeze(want), squeeze(out)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
	t.Run("for programs", func(t *testing.T) {
		code, out, errs := l.call(t, "blockers", "top", "-o", "json")
		var got observe.BlockerReport
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != 3 {
			t.Fatalf("exit code %d, %v, %q", code, err, errs)
		}
		if len(got.Blockers) != 1 || got.Blockers[0].Object.Name != "data" || len(got.Blockers[0].Path) != 3 || got.Deletion.Total != 2 {
			t.Errorf("got %s", out)
		}
	})
	t.Run("from the middle", func(t *testing.T) {
		code, out, _ := l.call(t, "blockers", "middle")
		if code != 3 || !strings.Contains(out, "in Layer "+l.namespace+"/middle > Layer "+l.namespace+"/low\n") {
			t.Errorf("exit code %d:\n%s", code, out)
		}
	})
	t.Run("and shown in the tree", func(t *testing.T) {
		_, out, _ := l.call(t, "tree", "top")
		if line := `data +False +Finalizer +\d+s +held by finalizer example.com/guard, added by ops`; !regexp.MustCompile(line).MatchString(out) {
			t.Errorf("no line is like %s:\n%s", line, out)
		}
	})
}

func TestBlockersWithoutBlockers(t *testing.T) {
	l := newLayers(t)
	l.layer(t, "alive", "")
	l.layer(t, "pruning", "")
	pruned := report.Status{Pruning: []report.Blocker{l.blocker(mapKind, "old", report.Deleting, "it was asked to go")}}
	l.SetStatus(t, l.kind, l.namespace, "pruning", pruned.Render(nil, report.AllFields))
	l.layer(t, "going", "")
	l.Delete(t, l.kind, l.namespace, "going")
	l.tell(t, "going", 1, 2)
	tests := map[string][]string{
		"alive":   {"/alive is not being deleted\n"},
		"pruning": {"/pruning is not being deleted\n", "No longer desired, and being removed", "/old", "it was asked to go"},
		"going":   {"/going is being deleted: 1 of 2 removed", "no blockers are known\n"},
	}
	for name, says := range tests {
		t.Run(name, func(t *testing.T) {
			code, out, errs := l.call(t, "blockers", name)
			for _, text := range says {
				if code != 0 || !strings.Contains(out, text) {
					t.Errorf("exit code %d, %q doesn't say %q; %s", code, out, text, errs)
				}
			}
		})
	}
	t.Run("the removal of objects that are no longer desired can be blocked", func(t *testing.T) {
		pruned.Pruning[0].Reason = report.Protected
		l.SetStatus(t, l.kind, l.namespace, "pruning", pruned.Render(nil, report.AllFields))
		code, out, _ := l.call(t, "blockers", "pruning")
		if code != 3 || !strings.Contains(out, "espalier.dev/protect-") {
			t.Errorf("exit code %d:\n%s", code, out)
		}
	})
}
