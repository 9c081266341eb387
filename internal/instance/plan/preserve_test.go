package plan_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
)

// TestPreservedObjectsHaveNoOwnerReference looks which of a composite's objects refer to it as
// their owner, by what is said of them and of it.
func TestPreservedObjectsHaveNoOwnerReference(t *testing.T) {
	for name, tc := range map[string]struct {
		instance, object map[string]string // annotations
		function         v1alpha1.DeletionPolicy
		allowed          v1alpha1.DeletionPolicyOverride
		owned            bool
	}{
		"No policy":                                  {owned: true},
		"The function says Delete":                   {function: v1alpha1.DeletionDelete, owned: true},
		"The function says Orphan":                   {function: v1alpha1.DeletionOrphan},
		"The function says Retain":                   {function: v1alpha1.DeletionRetain},
		"The composite says Orphan for all":          {instance: map[string]string{v1alpha1.DeletionPolicyAnnotation: "Orphan"}},
		"The composite says Retain for the node":     {instance: map[string]string{v1alpha1.DeletionPolicyAnnotation: "a=Retain"}},
		"The composite says Retain for another node": {instance: map[string]string{v1alpha1.DeletionPolicyAnnotation: "b=Retain"}, owned: true},
		"The composite overrides the function":       {instance: map[string]string{v1alpha1.DeletionPolicyAnnotation: "a=Delete"}, function: v1alpha1.DeletionRetain, allowed: v1alpha1.OverrideAll, owned: true},
		"The composite may preserve more only":       {instance: map[string]string{v1alpha1.DeletionPolicyAnnotation: "a=Delete"}, function: v1alpha1.DeletionRetain},
		"The composite may override nothing":         {instance: map[string]string{v1alpha1.DeletionPolicyAnnotation: "a=Retain"}, allowed: v1alpha1.OverrideNone, owned: true},
		"Nor is an invalid policy read then":         {instance: map[string]string{v1alpha1.DeletionPolicyAnnotation: "a=Keep"}, allowed: v1alpha1.OverrideNone, owned: true},
		"The policy of the composite is invalid":     {instance: map[string]string{v1alpha1.DeletionPolicyAnnotation: "a=Keep"}},
		"The composite is protected":                 {instance: map[string]string{v1alpha1.ProtectAnnotation: "ledger"}},
		"The object is protected":                    {object: map[string]string{v1alpha1.ProtectAnnotation: "ledger"}},
		"A former composite has retained it":         {object: map[string]string{v1alpha1.RetainedFromAnnotation: "former"}, owned: true},
	} {
		t.Run(name, func(t *testing.T) {
			composite := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "App"}}
			composite.SetName("x")
			composite.SetUID("uid")
			composite.SetAnnotations(tc.instance)
			of := inventory.OwnerOf(composite, object.Definition{Dialect: object.CompositeDialect}, "")
			child := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
			child.SetName("a")
			there := child.DeepCopy()
			there.SetAnnotations(tc.object)
			got := plan.Compute(plan.Desired{Nodes: []plan.Node{{ID: "a", Kind: child.GroupVersionKind(), Object: child, Observed: there, OnDelete: tc.function}}},
				plan.Facts{Instance: composite, Defaults: inventory.Defaults{Overrides: inventory.Overrides{DeletionPolicy: tc.allowed}}}, plan.History{}, of, v1alpha1.ChildManager)
			if is := inventory.IsOwnedBy(got.Steps[0].Object, composite); is != tc.owned {
				t.Errorf("owned: %t", is)
			}
		})
	}
}

// TestAProtectedObjectThatIsLeftBehindIsDisowned takes apart a composite with an object that refers to it as
// its owner.
func TestAProtectedObjectThatIsLeftBehindIsDisowned(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, tc := range map[string]struct {
		composite, object                 map[string]string // annotations
		tried                             plan.DeletionAttempts
		free                              bool // it doesn't refer to it any more
		retain, disown, del, done, waited bool
	}{
		"It has no policy": {del: true},
		"It is retained":   {composite: map[string]string{v1alpha1.DeletionPolicyAnnotation: "Retain"}, retain: true},
		"It is retained, and still has the owner reference": {composite: map[string]string{v1alpha1.DeletionPolicyAnnotation: "Retain"}, object: map[string]string{v1alpha1.RetainedFromAnnotation: "uid"}, retain: true},
		"It is retained, without the owner reference":       {composite: map[string]string{v1alpha1.DeletionPolicyAnnotation: "Retain"}, object: map[string]string{v1alpha1.RetainedFromAnnotation: "uid"}, free: true, done: true},
		"It is protected": {object: map[string]string{v1alpha1.ProtectAnnotation: "ledger"}},
		"It is protected and left behind": {
			object: map[string]string{v1alpha1.ProtectAnnotation: "ledger"}, composite: map[string]string{v1alpha1.ForceDeleteAnnotation: "all"}, disown: true,
		},
		"It is protected, left behind, and was just disowned": {
			object: map[string]string{v1alpha1.ProtectAnnotation: "ledger"}, composite: map[string]string{v1alpha1.ForceDeleteAnnotation: "all"},
			tried: plan.DeletionAttempts{AcceptedAt: now}, waited: true,
		},
		"It is protected, left behind, and disowned": {
			object: map[string]string{v1alpha1.ProtectAnnotation: "ledger"}, composite: map[string]string{v1alpha1.ForceDeleteAnnotation: "all"}, free: true, done: true,
		},
		"It is protected, left behind, and disowning is refused": {
			object: map[string]string{v1alpha1.ProtectAnnotation: "ledger"}, composite: map[string]string{v1alpha1.ForceDeleteAnnotation: "all"},
			tried: plan.DeletionAttempts{Refusal: plan.Refusal{Reason: "Forbidden", At: now, Since: now, Times: 1}}, done: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			composite := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "App"}}
			composite.SetName("x")
			composite.SetUID("uid")
			composite.SetAnnotations(tc.composite)
			composite.SetFinalizers([]string{v1alpha1.Finalizer})
			composite.SetDeletionTimestamp(&metav1.Time{Time: now})
			child := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
			child.SetName("a")
			child.SetUID("a")
			child.SetAnnotations(tc.object)
			inventory.OwnerOf(composite, object.Definition{Dialect: object.CompositeDialect}, "").Mark(child, inventory.Place{Node: "a", Preserved: tc.free})
			tried := plan.DeletionHistory{}
			if tc.tried.AcceptedAt != (time.Time{}) || tc.tried.Refusal.Reason != "" {
				tried = trials(tc.tried, "a")
			}
			got := plan.Teardown(plan.Remaining{Instance: composite, Children: []*unstructured.Unstructured{child}, History: tried, Now: now})
			if len(got.Retain) > 0 != tc.retain || len(got.Disown) > 0 != tc.disown || len(got.Delete) > 0 != tc.del || got.Done != tc.done || tc.waited && got.Retry == 0 {
				t.Errorf("retain %d, disown %d, delete %d, done %t, retry %s", len(got.Retain), len(got.Disown), len(got.Delete), got.Done, got.Retry)
			}
		})
	}
}
