package deletion

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// wideDefinition has n independent leaves.
func wideDefinition(n int) string {
	var resources strings.Builder
	for i := range n {
		fmt.Fprintf(&resources, `
    - id: leaf%02d
      template: {apiVersion: leaf.$GROUP/v1, kind: Leaf, metadata: {name: "${schema.metadata.name}-%02d"}, spec: {a: b}}`, i, i)
	}
	return leafKind + `
---
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-wide}
spec:
  schema: {apiVersion: v1alpha1, kind: Wide, group: $GROUP}
  resources:` + resources.String() + "\n"
}

// TestReportedCountsAreConsistent blocks the deletion of many objects with finalizers, and removes
// these one after the other, faster than the status is written: the counts always add up and never
// decrease, and the last are reported in the end.
func TestReportedCountsAreConsistent(t *testing.T) {
	const leaves = 24
	s := newSerialSuite(t)
	s.Apply(t, wideDefinition(leaves))
	s.AwaitDefinitions(t, "wide")
	s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Wide\nmetadata: {name: x, namespace: $NS}\n")
	s.AwaitReady(t, s.Kind("Wide"), s.NS, "x")
	name := func(i int) string { return fmt.Sprintf("x-%02d", i) }
	for i := range leaves {
		setFinalizers(t, s, leaf(s), name(i), guard)
	}
	var last int64
	watched := watchAll(t, s, s.Kind("Wide"), func(o *unstructured.Unstructured) error {
		d := report.ReadDeletion(o)
		switch {
		case d == nil:
			return nil
		case d.Total != leaves || d.Removed+d.Remaining != d.Total || d.Percent != d.Removed*100/d.Total || d.Progress != fmt.Sprintf("%d/%d", d.Removed, d.Total):
			return fmt.Errorf("the counts do not add up: %+v", d)
		case d.Removed < last:
			return fmt.Errorf("%d were removed and then %d", last, d.Removed)
		case d.Blocked > d.Remaining || len(d.Blockers) > 10 || int64(len(d.Blockers)) > d.Blocked:
			return fmt.Errorf("%d blockers listed, %d counted, %d objects remain", len(d.Blockers), d.Blocked, d.Remaining)
		}
		last = d.Removed
		return nil
	})
	reports := func(removed, blocked int64) func(*unstructured.Unstructured) error {
		return func(o *unstructured.Unstructured) error {
			if d := report.ReadDeletion(o); d == nil || d.Removed != removed || d.Blocked != blocked {
				return fmt.Errorf("does not report %d removed and %d blocked", removed, blocked)
			}
			return nil
		}
	}
	began := time.Now()
	s.Delete(t, s.Kind("Wide"), s.NS, "x")
	o := s.Await(t, s.Kind("Wide"), s.NS, "x", reports(0, leaves))
	for _, b := range report.ReadDeletion(o).Blockers {
		if len(b.Finalizers) != 1 || len(b.Finalizers[0].Managers) != 1 || b.Finalizers[0].Managers[0] != "somebody" {
			t.Errorf("%s does not have the manager of its finalizer: %+v", b.Object, b.Finalizers)
		}
	}
	for i := range leaves - 1 {
		setFinalizers(t, s, leaf(s), name(i))
	}
	s.Await(t, s.Kind("Wide"), s.NS, "x", reports(leaves-1, 1))
	setFinalizers(t, s, leaf(s), name(leaves-1))
	s.AwaitGone(t, s.Kind("Wide"), s.NS, "x")
	// A count is written at most once a second, however fast it changes.
	if revisions, most := watched.check(t), 12+int(time.Since(began)/time.Second); revisions > most {
		t.Errorf("the status was written %d times, more than %d", revisions, most)
	}
}

// TestABlockerIsOneEventOnEachLayer counts the events about a blocked deletion, during which all
// objects are changed.
func TestABlockerIsOneEventOnEachLayer(t *testing.T) {
	s := newSuite(t)
	buildBlocked(t, s)
	for i := range 5 {
		annotate(t, s, leaf(s), "x-leaf", "example.com/touched", fmt.Sprint(i))
		for _, kind := range layers {
			annotate(t, s, s.Kind(kind), "x", "example.com/touched", fmt.Sprint(i))
		}
	}
	setFinalizers(t, s, leaf(s), "x-leaf")
	awaitNestGone(t, s)
	expectOneBlockerEvent(t, s, "")
}

// expectOneBlockerEvent checks that each layer has one event about a blocker, and that its note
// contains the words.
func expectOneBlockerEvent(t *testing.T, s suite.Suite, words string) {
	t.Helper()
	kind := schema.GroupVersionKind{Group: "events.k8s.io", Version: "v1", Kind: "Event"}
	count := func(objects map[string]*unstructured.Unstructured) map[string]int {
		counts := map[string]int{}
		for _, o := range objects {
			of, _, _ := unstructured.NestedString(o.Object, "regarding", "kind")
			reason, _, _ := unstructured.NestedString(o.Object, "reason")
			note, _, _ := unstructured.NestedString(o.Object, "note")
			repeated, _, _ := unstructured.NestedInt64(o.Object, "series", "count")
			if reason == "DeletionBlocked" {
				counts[of] += 1 + int(repeated)
				if !strings.Contains(note, words) {
					t.Errorf("%s has an event about another blocker: %s", of, note)
				}
			}
		}
		return counts
	}
	s.AwaitList(t, kind, s.NS, "", func(objects map[string]*unstructured.Unstructured) error {
		for _, kind := range layers {
			if count(objects)[kind] == 0 {
				return fmt.Errorf("the events are %v", count(objects))
			}
		}
		return nil
	})
	for kind, n := range count(blockerEvents(t, s, kind)) {
		if n != 1 {
			t.Errorf("%s has %d events about blockers", kind, n)
		}
	}
}

func blockerEvents(t *testing.T, s suite.Suite, kind schema.GroupVersionKind) map[string]*unstructured.Unstructured {
	t.Helper()
	list := s.List(t, kind, s.NS, "")
	all := map[string]*unstructured.Unstructured{}
	for i := range list {
		all[list[i].GetName()] = &list[i]
	}
	return all
}

// TestAnExternalDeletionInProgressIsNoWarning deletes a nest above a managed resource whose provider
// deletes slowly, and then reports a failure.
func TestAnExternalDeletionInProgressIsNoWarning(t *testing.T) {
	s := newSuite(t)
	build(t, s)
	setFinalizers(t, s, leaf(s), "x-leaf", "finalizer.managedresource.crossplane.io")
	setConditions := func(synced, reason, message string) {
		s.SetStatus(t, leaf(s), s.NS, "x-leaf", map[string]any{"conditions": []any{
			map[string]any{"type": "Ready", "status": "False", "reason": "Deleting"},
			map[string]any{"type": "Synced", "status": synced, "reason": reason, "message": message},
		}})
	}
	setConditions("True", "ReconcileSuccess", "")
	s.Delete(t, s.Kind("Top"), s.NS, "x")
	t.Log("the status of every layer reports a deletion in progress")
	for _, kind := range layers {
		s.Await(t, s.Kind(kind), s.NS, "x", func(o *unstructured.Unstructured) error {
			if d := report.ReadDeletion(o); d == nil || len(d.Blockers) == 0 || !d.Blockers[0].RootCause().InProgress {
				return fmt.Errorf("the reported deletion is %+v", d)
			}
			return nil
		})
	}
	t.Log("the only event is about the failure")
	setConditions("False", "ReconcileError", "delete failed: DependencyViolation")
	awaitBlocked(t, s, "x-leaf", report.ExternalDeletion, "DependencyViolation")
	expectOneBlockerEvent(t, s, "DependencyViolation")
	setFinalizers(t, s, leaf(s), "x-leaf")
	awaitNestGone(t, s)
}

// TestABlockedPruneContinuesInADeletion deletes an instance during a blocked prune.
func TestABlockedPruneContinuesInADeletion(t *testing.T) {
	s := newSuite(t)
	s.Apply(t, choice)
	s.AwaitDefinitions(t, "choice")
	instance := "apiVersion: $GROUP/v1alpha1\nkind: Choice\nmetadata: {name: x, namespace: $NS}\nspec: {extra: %t}\n"
	s.Apply(t, fmt.Sprintf(instance, true))
	s.AwaitReady(t, s.Kind("Choice"), s.NS, "x")
	setFinalizers(t, s, leaf(s), "x-extra", guard)
	s.Apply(t, fmt.Sprintf(instance, false))
	s.Await(t, s.Kind("Choice"), s.NS, "x", func(o *unstructured.Unstructured) error {
		if p := report.ReadPruning(o); len(p) != 1 || p[0].Reason != report.HeldByFinalizer {
			return fmt.Errorf("reports %+v", p)
		}
		return nil
	})
	s.Delete(t, s.Kind("Choice"), s.NS, "x")
	o := s.Await(t, s.Kind("Choice"), s.NS, "x", isBlocked("x-extra", report.HeldByFinalizer, guard))
	if p := report.ReadPruning(o); len(p) > 0 {
		t.Errorf("the prune is still reported: %+v", p)
	}
	if d := report.ReadDeletion(o); d.Total != 2 {
		t.Errorf("the reported deletion is %+v", d)
	}
	setFinalizers(t, s, leaf(s), "x-extra")
	s.AwaitGone(t, s.Kind("Choice"), s.NS, "x")
	expectNoInstances(t, s, s.Kind("Choice"))
}

// choice has an optional node.
var choice = leafKind + "---" + suite.Graph("Choice", "spec: {extra: boolean | default=true}", `
    - id: always
      template: {apiVersion: leaf.$GROUP/v1, kind: Leaf, metadata: {name: "${schema.metadata.name}-always"}, spec: {a: b}}
    - id: extra
      includeWhen: ["${schema.spec.extra}"]
      template: {apiVersion: leaf.$GROUP/v1, kind: Leaf, metadata: {name: "${schema.metadata.name}-extra"}, spec: {a: b}}
`)

// TestTheLastDeletionPolicyCounts deletes an instance, and while that is blocked deletes it again
// with the policy Orphan.
func TestTheLastDeletionPolicyCounts(t *testing.T) {
	s := newSuite(t)
	s.Apply(t, choice)
	s.AwaitDefinitions(t, "choice")
	s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Choice\nmetadata: {name: x, namespace: $NS}\n")
	s.AwaitReady(t, s.Kind("Choice"), s.NS, "x")
	annotate(t, s, leaf(s), "x-always", "espalier.dev/protect", "holds the ledger")
	s.Delete(t, s.Kind("Choice"), s.NS, "x")
	s.Await(t, s.Kind("Choice"), s.NS, "x", isBlocked("x-always", report.Protected, "holds the ledger"))
	awaitGone(t, s, leaf(s), "x-extra")
	s.DeleteWith(t, s.Kind("Choice"), s.NS, "x", metav1.DeletePropagationOrphan)
	s.AwaitGone(t, s.Kind("Choice"), s.NS, "x")
	s.Await(t, leaf(s), s.NS, "x-always", func(o *unstructured.Unstructured) error {
		if o == nil || o.GetDeletionTimestamp() != nil || o.GetLabels()["kro.run/owned"] != "" {
			return errors.New("is not orphaned")
		}
		return nil
	})
}
