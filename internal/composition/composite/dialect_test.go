package composite_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/composite"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

func said(kind string, status metav1.ConditionStatus, reason, message string) v1alpha1.Condition {
	return v1alpha1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// TestConditionsTellOfNow has conditions of before, what is wanted, and what there is.
func TestConditionsTellOfNow(t *testing.T) {
	var (
		available = said("Ready", "True", "Available", "")
		synced    = said("Synced", "True", "ReconcileSuccess", "")
		backedUp  = said("BackedUp", "True", "Done", "last night")
		failed    = plan.Problem{Reason: plan.PipelineFailed, Message: "cannot compose resources: step"}
		refused   = plan.Problem{Reason: plan.Rejected, Message: "a webhook refuses"}
		reading   = plan.Problem{Reason: plan.Syncing, Message: "reading"}
	)
	cases := map[string]struct {
		reason  string
		before  condition.Set
		desired plan.Desired
		summary plan.Summary
		want    []v1alpha1.Condition
		// progress is Reconciling or Stalled, with the condition whose reason and message it has.
		progress string
	}{
		"all is there": {want: []v1alpha1.Condition{synced, available}},
		"another implementation has said how its watches are": {
			reason: "nobody would ever say so again",
			before: condition.Set{available, synced, said("Responsive", "True", "WatchCircuitClosed", "")},
			want:   []v1alpha1.Condition{available, synced},
		},
		"something isn't ready": {
			before: condition.Set{available}, summary: plan.Summary{Unready: "db: slowly"},
			want:     []v1alpha1.Condition{said("Ready", "False", "Creating", "Unready resources: db: slowly"), synced},
			progress: "Reconciling as Ready",
		},
		"something isn't ready, and a function says that it doesn't matter": {
			desired: plan.Desired{Ready: new(true)}, summary: plan.Summary{Unready: "db: slowly"},
			want: []v1alpha1.Condition{synced, available},
		},
		"all is ready, and a function says that it isn't": {
			desired:  plan.Desired{Ready: new(false)},
			want:     []v1alpha1.Condition{synced, said("Ready", "False", "Creating", "a function of the pipeline set the composite unready")},
			progress: "Reconciling as Ready",
		},
		"the pipeline fails": {
			reason: "it is as ready as it was",
			before: condition.Set{available, synced}, desired: plan.Desired{Problem: failed}, summary: plan.Summary{Reason: plan.PipelineFailed, Message: failed.Message, Failed: failed.Message},
			want:     []v1alpha1.Condition{available, said("Synced", "False", "ReconcileError", failed.Message)},
			progress: "Stalled as Synced",
		},
		"the pipeline fails before anything is said": {
			desired: plan.Desired{Problem: failed}, summary: plan.Summary{Reason: plan.PipelineFailed, Message: failed.Message, Failed: failed.Message},
			want:     []v1alpha1.Condition{said("Synced", "False", "ReconcileError", failed.Message), said("Ready", "False", "Creating", failed.Message)},
			progress: "Stalled as Synced",
		},
		"the pipeline fails for another reason than before": {
			reason: "what Ready said is no longer so",
			before: condition.Set{said("Ready", "False", "Creating", "there is no function"), synced}, desired: plan.Desired{Problem: failed}, summary: plan.Summary{Reason: plan.PipelineFailed, Message: failed.Message, Failed: failed.Message},
			want:     []v1alpha1.Condition{said("Ready", "False", "Creating", failed.Message), said("Synced", "False", "ReconcileError", failed.Message)},
			progress: "Stalled as Synced",
		},
		"nothing is known after a restart": {
			reason: "it is as unready as it was, and reading is no reason for that",
			before: condition.Set{said("Ready", "False", "Creating", "Unready resources: db: slowly"), synced}, desired: plan.Desired{Problem: reading}, summary: plan.Summary{Reason: plan.Syncing, Message: reading.Message},
			want:     []v1alpha1.Condition{said("Ready", "False", "Creating", "Unready resources: db: slowly"), synced},
			progress: "Reconciling as Ready",
		},
		"something could not be applied": {
			reason: "that is no success, whatever comes of it later",
			before: condition.Set{available, synced}, summary: plan.Summary{Reason: plan.NotReady, Message: "web: 1/3; db: no kind", Unready: "web: 1/3; db: no kind", Failed: "db: no kind"},
			want:     []v1alpha1.Condition{said("Ready", "False", "Creating", "Unready resources: web: 1/3; db: no kind"), said("Synced", "False", "ReconcileError", "db: no kind")},
			progress: "Reconciling as Synced",
		},
		"something needs an action, and something else takes its time": {
			reason: "Synced does not list what is merely unready",
			before: condition.Set{available, synced}, summary: plan.Summary{Reason: plan.NotOwned, Message: "web: 1/3; db: belongs to a", Unready: "web: 1/3; db: belongs to a", Failed: "db: belongs to a"},
			want:     []v1alpha1.Condition{said("Ready", "False", "Creating", "Unready resources: web: 1/3; db: belongs to a"), said("Synced", "False", "ReconcileError", "db: belongs to a")},
			progress: "Stalled as Synced",
		},
		"a function sets a condition": {
			desired: plan.Desired{Conditions: []v1alpha1.Condition{backedUp}}, want: []v1alpha1.Condition{synced, available, backedUp},
		},
		"no function sets it any more": {
			before: condition.Set{backedUp}, want: []v1alpha1.Condition{synced, available},
		},
		"a failure has kept functions from setting it": {
			before: condition.Set{available, backedUp}, desired: plan.Desired{Problem: failed}, summary: plan.Summary{Reason: plan.PipelineFailed, Message: failed.Message, Failed: failed.Message},
			want: []v1alpha1.Condition{
				available, said("BackedUp", "Unknown", "FatalError", "the pipeline failed before a function could set this condition"),
				said("Synced", "False", "ReconcileError", failed.Message),
			},
			progress: "Stalled as Synced",
		},
		"it can't be claimed": {
			reason: "nothing is asked for, and it is as ready as it was",
			before: condition.Set{available, synced}, summary: plan.Summary{InventoryProblem: refused},
			want:     []v1alpha1.Condition{available, said("Synced", "False", "ReconcileError", refused.Message)},
			progress: "Stalled as Synced",
		},
		"it can't be claimed from the start": {
			summary:  plan.Summary{InventoryProblem: refused},
			want:     []v1alpha1.Condition{said("Synced", "False", "ReconcileError", refused.Message), said("Ready", "False", "Creating", refused.Message)},
			progress: "Stalled as Synced",
		},
		"the pipeline fails, and is run again": {
			reason: "it may succeed then",
			before: condition.Set{available, synced}, desired: plan.Desired{Problem: failed, Failure: errors.New("unavailable")}, summary: plan.Summary{Reason: plan.PipelineFailed, Message: failed.Message, Failed: failed.Message},
			want:     []v1alpha1.Condition{available, said("Synced", "False", "ReconcileError", failed.Message)},
			progress: "Reconciling as Synced",
		},
		"a function sets Stalled": {
			reason:  "the author's condition is left alone",
			desired: plan.Desired{Conditions: []v1alpha1.Condition{said("Stalled", "True", "Quota", "none left")}}, summary: plan.Summary{Unready: "db: slowly"},
			want:     []v1alpha1.Condition{synced, said("Ready", "False", "Creating", "Unready resources: db: slowly")},
			progress: "Stalled by itself",
		},
		"no function sets Stalled any more": {
			before: condition.Set{said("Stalled", "True", "Quota", "none left")}, want: []v1alpha1.Condition{synced, available},
		},
		"it will be known in a moment": {
			reason: "what was said holds until then",
			before: condition.Set{available, synced, backedUp}, desired: plan.Desired{Problem: reading}, summary: plan.Summary{Reason: plan.Syncing, Message: reading.Message},
			want: []v1alpha1.Condition{available, synced, backedUp},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := composite.Dialect{}.LiveConditions(tc.before, tc.desired, tc.summary, instance.Moment{Now: time.Unix(1, 0), Generation: 7})
			progress := ""
			for _, kind := range []string{"Reconciling", "Stalled"} {
				if c, there := got.Get(kind); there {
					progress = kind + " by itself"
					for _, of := range []string{"Ready", "Synced"} {
						if root, _ := got.Get(of); root.Reason == c.Reason && root.Message == c.Message {
							progress = kind + " as " + of
						}
					}
					got = got.Remove(kind)
				}
			}
			if diff := cmp.Diff(byType(t, tc.want, 0), byType(t, got, 7)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			if progress != tc.progress {
				t.Errorf("%s: want %q, got %q", tc.reason, tc.progress, progress)
			}
		})
	}
}

// byType are conditions without times and generations; what is said now is said of a
// generation.
func byType(t *testing.T, set []v1alpha1.Condition, generation int64) map[string]v1alpha1.Condition {
	t.Helper()
	out := map[string]v1alpha1.Condition{}
	for _, c := range set {
		if c.LastTransitionTime != nil && c.ObservedGeneration != generation && c.ObservedGeneration != 0 {
			t.Errorf("%s is of generation %d", c.Type, c.ObservedGeneration)
		}
		c.LastTransitionTime, c.ObservedGeneration = nil, 0
		out[c.Type] = c
	}
	return out
}
