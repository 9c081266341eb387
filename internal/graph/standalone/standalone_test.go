package standalone

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

func TestAccountOf(t *testing.T) {
	deleted := func(o map[string]any) map[string]any {
		o["metadata"] = map[string]any{"namespace": "apps", "deletionTimestamp": "2026-08-01T12:00:00Z"}
		return o
	}
	live := func(o map[string]any) map[string]any {
		o["metadata"] = map[string]any{"namespace": "apps"}
		return o
	}
	named := map[string]any{"serviceAccountName": "next"}
	for name, tc := range map[string]struct {
		o    map[string]any
		want string
	}{
		"none named":                                {live(map[string]any{}), "default"},
		"an empty name":                             {live(map[string]any{"spec": map[string]any{"serviceAccountName": ""}}), "default"},
		"a name":                                    {live(map[string]any{"spec": named}), "next"},
		"a name after another one":                  {live(map[string]any{"spec": named, "status": appliedBy("system:serviceaccount:apps:former")}), "next"},
		"a deletion as who has written":             {deleted(map[string]any{"spec": named, "status": appliedBy("system:serviceaccount:apps:former")}), "former"},
		"a deletion of what was never written":      {deleted(map[string]any{"spec": named}), "next"},
		"a status that names another namespace":     {deleted(map[string]any{"spec": named, "status": appliedBy("system:serviceaccount:other:former")}), "next"},
		"a status that names no service account":    {deleted(map[string]any{"spec": named, "status": appliedBy("admin")}), "next"},
		"a status with a value that isn't a string": {deleted(map[string]any{"spec": named, "status": map[string]any{appliedField: int64(1)}}), "next"},
	} {
		if got, want := accountOf(&unstructured.Unstructured{Object: tc.o}), (v1alpha1.ServiceAccount{Namespace: "apps", Name: tc.want}); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func appliedBy(user string) map[string]any { return map[string]any{appliedField: user} }

// TestConditions says Accepted, ResourcesConverged and Ready for what a reconcile found.
func TestConditions(t *testing.T) {
	at := instance.Moment{Now: time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC), Generation: 3}
	live := func(desired plan.Desired, s plan.Summary) condition.Set {
		return Dialect{}.LiveConditions(nil, desired, s, at)
	}
	waits := func(reason plan.Reason) condition.Set {
		return live(plan.Desired{}, plan.Summary{Reason: reason, Message: "a waits"})
	}
	for name, tc := range map[string]struct {
		set  condition.Set
		want string
	}{
		"all is well":   {live(plan.Desired{}, plan.Summary{}), "Accepted=True/Compiled ResourcesConverged=True/Applied Ready=True/Ready"},
		"it is invalid": {live(plan.Desired{Problem: plan.Problem{Reason: plan.InvalidGraph, Message: "no such field"}}, plan.Summary{Reason: plan.InvalidGraph}), "Accepted=False/InvalidGraph ResourcesConverged=Unknown/InvalidGraph Ready=False/InvalidGraph"},
		"no inventory":  {live(plan.Desired{}, plan.Summary{InventoryProblem: plan.Problem{Reason: plan.Rejected}}), "Accepted=True/Compiled ResourcesConverged=False/ApplyFailed Ready=False/ApplyFailed"},
		"data":          {waits(plan.WaitingForField), "Accepted=True/Compiled ResourcesConverged=False/DataPending Ready=False/DataPending"},
		"readiness":     {waits(plan.WaitingForReadiness), "Accepted=True/Compiled ResourcesConverged=False/WaitingForReadiness Ready=False/WaitingForReadiness"},
		"a kind":        {waits(plan.WaitingForKind), "Accepted=True/Compiled ResourcesConverged=False/WaitingForReadiness Ready=False/WaitingForReadiness"},
		"an owner":      {waits(plan.NotOwned), "Accepted=True/Compiled ResourcesConverged=False/FieldManagerConflict Ready=False/FieldManagerConflict"},
		"a manager":     {waits(plan.FieldConflict), "Accepted=True/Compiled ResourcesConverged=False/FieldManagerConflict Ready=False/FieldManagerConflict"},
		"a release":     {waits(plan.ReleaseFailed), "Accepted=True/Compiled ResourcesConverged=False/ReleaseFailed Ready=False/ReleaseFailed"},
		"a contest":     {waits(plan.DriftContested), "Accepted=True/Compiled ResourcesConverged=False/FieldManagerConflict Ready=False/FieldManagerConflict"},
		"permissions":   {waits(plan.Forbidden), "Accepted=True/Compiled ResourcesConverged=False/ApplyFailed Ready=False/ApplyFailed"},
		"no answer":     {waits(plan.Unavailable), "Accepted=True/Compiled ResourcesConverged=False/ApplyFailed Ready=False/ApplyFailed"},
		"it is suspended": {Dialect{}.SuspendedConditions(live(plan.Desired{}, plan.Summary{}), "suspended", at),
			"Accepted=True/Compiled ResourcesConverged=False/ReconciliationSuspended Ready=False/ReconciliationSuspended"},
		"it is deleted": {Dialect{}.DeletionConditions(live(plan.Desired{}, plan.Summary{}), plan.Removal{}, at),
			"Accepted=True/Compiled ResourcesConverged=False/Deleting Ready=False/Deleting"},
	} {
		var got []string
		for _, kind := range []string{v1alpha1.GraphAccepted, v1alpha1.GraphResourcesConverged, v1alpha1.InstanceReady} {
			c, _ := tc.set.Get(kind)
			got = append(got, kind+"="+string(c.Status)+"/"+c.Reason)
			if c.ObservedGeneration != 3 {
				t.Errorf("%s: %s is of generation %d", name, kind, c.ObservedGeneration)
			}
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s:\n%s\n%s", name, strings.Join(got, " "), tc.want)
		}
	}
}

func TestRemedy(t *testing.T) {
	refused := `list configmaps is forbidden: User "controllers" cannot impersonate-on:serviceaccount:list resource "configmaps"`
	if got := withRemedy(refused); !strings.Contains(got, "the verb impersonate") {
		t.Error(got)
	}
	if got := withRemedy("a waits for b"); got != "a waits for b" {
		t.Error(got)
	}
}
