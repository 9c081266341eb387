package plan_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

// TestWhenADeletionIsReported has three children in three layers, of which some have
// gone since the status was last written.
func TestWhenADeletionIsReported(t *testing.T) {
	a, b, c := left("a", layer(0)), left("b", layer(1)), left("c", layer(2))
	first := plan.Teardown(plan.Remaining{Instance: instance(), Children: []*unstructured.Unstructured{a, b, c}, Now: now}).Deletion
	blockedBy := func(names ...string) report.Deletion {
		d := first
		for _, name := range names {
			d.Blockers = append(d.Blockers, report.Blocker{Node: name, BlockedObject: report.BlockedObject{
				Object: report.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "prod", Name: name}, Reason: report.HeldByFinalizer,
				Message: "held by finalizer x/y", Since: report.At(now), Finalizers: []report.Finalizer{{Name: "x/y"}},
			}})
		}
		d.Blocked = int64(len(names))
		return d
	}
	heldC, heldB := left("c", layer(2), held("x/y")), left("b", layer(2), held("x/y"))
	cases := map[string]struct {
		reason   string
		before   report.Deletion
		children []*unstructured.Unstructured
		reported time.Duration // ago
		want     string
		blocked  int
		retry    time.Duration
	}{
		"A count shortly after the last report isn't reported": {
			reason: "each report is a write", before: first, children: []*unstructured.Unstructured{a, b}, reported: 100 * time.Millisecond,
			want: "0/3", retry: 4900 * time.Millisecond,
		},
		"A count five seconds after the last report is reported": {
			reason: "a user may watch the progress", before: first, children: []*unstructured.Unstructured{a, b}, reported: 5 * time.Second, want: "1/3", retry: 10 * time.Second,
		},
		"After a restart a count is reported at once": {
			reason: "the time of the last report is unknown", before: first, children: []*unstructured.Unstructured{a, b}, reported: 10 * time.Hour, want: "1/3", retry: 10 * time.Second,
		},
		"The last count isn't reported": {
			reason: "the instance is deleted now", before: first, reported: 0, want: "0/3",
		},
		"The last count isn't reported, however old the last report is": {
			reason: "the instance is deleted now", before: first, reported: time.Hour, want: "0/3",
		},
		"A first blocker is reported at once": {
			reason: "a user has to act", before: first, children: []*unstructured.Unstructured{a, b, heldC}, want: "0/3", blocked: 1,
		},
		"A second blocker shortly after isn't reported": {
			reason: "many may follow", before: blockedBy("c"), children: []*unstructured.Unstructured{a, heldB, heldC}, reported: 50 * time.Millisecond,
			want: "0/3", blocked: 1, retry: 150 * time.Millisecond,
		},
		"A second blocker is reported after a delay": {
			reason: "both need an action", before: blockedBy("c"), children: []*unstructured.Unstructured{a, heldB, heldC}, reported: 200 * time.Millisecond,
			want: "0/3", blocked: 2,
		},
		"An unchanged report": {
			reason: "nothing is written", before: blockedBy("c"), children: []*unstructured.Unstructured{a, b, heldC}, want: "0/3", blocked: 1,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			history := trials(plan.DeletionAttempts{AcceptedAt: now, FirstSeen: long, ChangedAt: now, ResourceVersion: "1"}, "uid-b", "uid-c")
			history.ReportedAt = now.Add(-tc.reported)
			got := plan.Teardown(plan.Remaining{
				Instance: instance(), Children: tc.children, Now: now,
				Reported: report.Status{Deletion: &tc.before}, History: history,
			})
			if got.Deletion.Progress != tc.want || len(got.Deletion.Blockers) != tc.blocked || got.Retry != tc.retry {
				t.Errorf("%s: %s with %d blockers, again in %s", tc.reason, got.Deletion.Progress, len(got.Deletion.Blockers), got.Retry)
			}
		})
	}
}

func TestTheFirstBlockersAreReportedAndAllCounted(t *testing.T) {
	var children []*unstructured.Unstructured
	noticed := map[types.UID]time.Time{}
	for i := range 30 {
		o := left("c"+string(rune('A'+i)), layer(0), held("x/y"))
		noticed[o.GetUID()] = long
		children = append(children, o)
	}
	d := plan.Teardown(plan.Remaining{Instance: instance(), Children: children, Now: now, History: noticedAt(noticed)}).Deletion
	if d.Blocked != 30 || len(d.Blockers) != 10 {
		t.Errorf("%d blockers, %d reported", d.Blocked, len(d.Blockers))
	}
}

// TestARefusedRequestIsRepeatedWithBackoff repeats a request whenever it is due, and measures
// the delays.
func TestARefusedRequestIsRepeatedWithBackoff(t *testing.T) {
	o := left("a", layer(0))
	at, previous, trial := now, time.Duration(0), plan.DeletionAttempts{}.Refused(report.DeniedByWebhook, "no", o, now)
	for range 20 {
		got := plan.Teardown(plan.Remaining{Instance: instance(), Children: []*unstructured.Unstructured{o}, Now: at, History: trials(trial, "uid-a")})
		if len(got.Delete) > 0 || got.Retry < previous || got.Retry < 250*time.Millisecond || got.Retry > 30*time.Second {
			t.Fatalf("after %s it is asked for again in %s: %v", previous, got.Retry, got.Delete)
		}
		previous, at = got.Retry, at.Add(got.Retry)
		got = plan.Teardown(plan.Remaining{Instance: instance(), Children: []*unstructured.Unstructured{o}, Now: at, History: trials(trial, "uid-a")})
		if len(got.Delete) != 1 || got.Deletion.Blockers[0].Since != report.At(now) {
			t.Fatalf("it isn't asked for again, or not since the first time: %+v", got.Deletion)
		}
		trial = trial.Refused(report.DeniedByWebhook, "no", o, at)
	}
	if previous != 30*time.Second {
		t.Errorf("in the end it is asked for every %s", previous)
	}
}

func TestPrune(t *testing.T) {
	above := func(with ...change) *unstructured.Unstructured {
		return left("above", inventory.Place{Layer: 1, DependsOn: []string{"below"}}, with...)
	}
	below, other := left("below", layer(0)), left("other", layer(0))
	cases := map[string]struct {
		reason   string
		children []*unstructured.Unstructured
		noticed  time.Duration // ago
		del      string
		release  string
		want     []string
		retry    time.Duration
	}{
		"A dependent is deleted first, and an independent object at once": {
			reason: "an edge holds up only its ends", children: []*unstructured.Unstructured{below, above(), other}, del: "above other",
			retry: 200 * time.Millisecond,
		},
		"A blocked object delays its dependencies only": {
			reason: "one stuck object is no reason for another to stay", children: []*unstructured.Unstructured{below, above(held("x/y")), other}, noticed: time.Hour, del: "other",
			want: []string{
				"ConfigMap prod/above: Finalizer: held by finalizer x/y",
				"ConfigMap prod/below: WaitingForOthers: is deleted after its dependents: it is no longer desired",
				"ConfigMap prod/other: Deleting: is being deleted: it is no longer desired",
			},
		},
		"An object is deleted after those that deleteAfter names": {
			reason: "the author wants that", children: []*unstructured.Unstructured{other, left("another", inventory.Place{DeleteAfter: []string{"other"}})}, del: "other",
			retry: 200 * time.Millisecond,
		},
		"One of an earlier version is deleted after all of higher layers": {
			reason: "any of them may depend on it", children: []*unstructured.Unstructured{above(), left("old", layer(0), unordered)}, del: "above",
			retry: 200 * time.Millisecond,
		},
		"and before all of lower ones": {
			reason: "it may depend on any of them", children: []*unstructured.Unstructured{other, left("old", layer(1), unordered)}, del: "old",
			retry: 200 * time.Millisecond,
		},
		"An orphan is released": {
			reason: "the author wants it to stay", children: []*unstructured.Unstructured{left("a", inventory.Place{OnDelete: "Orphan"})}, release: "a",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			noticed := map[types.UID]time.Time{}
			for _, o := range tc.children {
				noticed[o.GetUID()] = now.Add(-tc.noticed)
			}
			got := prune(plan.Remaining{Instance: instance(), Children: tc.children, Now: now, History: noticedAt(noticed)})
			if diff := cmp.Diff([]any{tc.del, tc.release, tc.want, tc.retry}, []any{sorted(got.Delete), sorted(got.Release), texts(got.Objects), got.Retry}); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
