package plan_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// What keeps an object that is to be recreated is what a deletion of its instance would report as its blocker.
func TestTheProblemOfATerminatingObjectNamesTheCause(t *testing.T) {
	finalizers := func(all ...string) change {
		return func(o *unstructured.Unstructured) { o.SetFinalizers(all) }
	}
	status := func(key string, value any) change {
		return func(o *unstructured.Unstructured) { _ = unstructured.SetNestedField(o.Object, value, "status", key) }
	}
	conditions := func(all ...map[string]any) change {
		list := make([]any, len(all))
		for i := range all {
			list[i] = all[i]
		}
		return status("conditions", list)
	}
	inUse := conditions(
		map[string]any{"type": "Ready", "status": "False", "reason": "Deleting"},
		map[string]any{"type": "Synced", "status": "False", "reason": "ReconcileError", "message": "DependencyViolation: subnet-1 is used by cluster demo"},
	)
	const external = "finalizer.managedresource.crossplane.io"
	instance := func(o *unstructured.Unstructured) {
		o.SetLabels(map[string]string{"applyset.kubernetes.io/id": "x"})
	}
	cases := map[string]struct {
		object *unstructured.Unstructured
		want   string
	}{
		"a managed resource says why its external resource stays": {
			someone(dying, finalizers(external), inUse), ": the external resource still exists: ReconcileError: DependencyViolation: subnet-1 is used by cluster demo",
		},
		"a provider that reports no problem": {
			someone(dying, finalizers(external), conditions(map[string]any{"type": "Ready", "status": "False", "reason": "Deleting"})), ": the external resource still exists: Deleting",
		},
		"a managed resource with another finalizer, for which its provider waits": {
			someone(dying, finalizers(external, "example.com/guard"), inUse), ": held by finalizer example.com/guard; the external resource still exists",
		},
		"finalizers of other controllers": {
			someone(dying, finalizers("example.com/a", "example.com/b")), ": held by finalizers example.com/a; example.com/b",
		},
		"an instance names the deepest cause": {
			someone(dying, instance, finalizers(v1alpha1.Finalizer), status("deletion", map[string]any{"startedAt": "2026-08-01T12:00:00.000Z", "blockers": []any{map[string]any{
				"object": map[string]any{"apiVersion": "v1", "kind": "Secret", "name": "s"}, "reason": "Finalizer", "message": "held by finalizer example.com/c",
			}}})), ": waits for Secret s: Finalizer: held by finalizer example.com/c",
		},
		"an instance that is paused": {
			someone(dying, instance, finalizers(v1alpha1.Finalizer), conditions(map[string]any{"type": "Synced", "status": "False", "reason": "ReconcilePaused", "message": "paused by an annotation"})),
			": its status says: paused by an annotation",
		},
		"nothing is known": {someone(dying), "it is recreated once it is gone"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := plan.TerminatingProblem(tc.object); got.Reason != plan.ResourceDeleting || !strings.HasSuffix(got.Message, tc.want) {
				t.Errorf("got %s: %s", got.Reason, got.Message)
			}
		})
	}
	t.Run("what another namespace's instance waits for is not told", func(t *testing.T) {
		elsewhere := owner
		elsewhere.Namespace, elsewhere.Name = "payroll", "merger"
		holder := someone(dying, finalizers(external), inUse, func(o *unstructured.Unstructured) { elsewhere.Mark(o, inventory.Place{Node: "x"}) })
		got := plan.NameConflictProblem(plan.NameHolder{Unstructured: holder}, owner, false)
		if got.Reason != plan.NameHeld || strings.Contains(got.Message, "subnet-1") || !strings.HasSuffix(got.Message, "once that is gone") {
			t.Errorf("got %s: %s", got.Reason, got.Message)
		}
	})
	t.Run("the object that has the name says why it stays", func(t *testing.T) {
		got := plan.NameConflictProblem(plan.NameHolder{Unstructured: someone(dying, finalizers(external), inUse)}, owner, false)
		if got.Reason != plan.NameHeld || !strings.HasSuffix(got.Message, "DependencyViolation: subnet-1 is used by cluster demo") {
			t.Errorf("got %s: %s", got.Reason, got.Message)
		}
	})
}
