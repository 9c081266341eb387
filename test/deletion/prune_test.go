package deletion

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// parts has two optional chains of nodes, and one node that is always included.
var parts = suite.Graph("Parts", "spec: {one: boolean | default=true, two: boolean | default=true, value: string | default=a}", `
    - id: base
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-base"}, data: {value: "${schema.spec.value}"}}
    - id: oneBelow
      includeWhen: ["${schema.spec.one}"]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-one-below"}}
    - id: oneAbove
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-one-above"}, data: {of: "${oneBelow.metadata.name}"}}
    - id: twoBelow
      includeWhen: ["${schema.spec.two}"]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-two-below"}}
    - id: twoAbove
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-two-above"}, data: {of: "${twoBelow.metadata.name}"}}
`)

const partsInstance = "apiVersion: $GROUP/v1alpha1\nkind: Parts\nmetadata: {name: x, namespace: $NS}\nspec: {one: %t, two: %t, value: %s}\n"

// createParts creates the instance x with all its children.
func createParts(t *testing.T) suite.Suite {
	t.Helper()
	s := newSuite(t)
	s.Apply(t, parts)
	s.AwaitDefinitions(t, "parts")
	s.Apply(t, fmt.Sprintf(partsInstance, true, true, "a"))
	s.AwaitReady(t, s.Kind("Parts"), s.NS, "x")
	return s
}

// reportsPruning checks which objects a ready instance reports as being pruned, by name and reason.
func reportsPruning(want map[string]report.Reason) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if err := testkit.IsReady(o); err != nil {
			return err
		}
		got := map[string]report.Reason{}
		for _, b := range report.ReadPruning(o) {
			got[b.Object.Name] = b.Reason
		}
		if len(got) != len(want) {
			return fmt.Errorf("reports %v", got)
		}
		for name, reason := range want {
			if got[name] != reason {
				return fmt.Errorf("reports %v", got)
			}
		}
		return nil
	}
}

// TestAPruneIsReportedUntilItEnds leaves out two chains, while a finalizer blocks the deletion of
// one: the other is deleted, the instance stays ready and is reconciled, and the blocked objects are
// reported until they are deleted.
func TestAPruneIsReportedUntilItEnds(t *testing.T) {
	s := createParts(t)
	setFinalizers(t, s, suite.ConfigMap, "x-one-above", "example.com/guard")
	s.Apply(t, fmt.Sprintf(partsInstance, false, false, "a"))
	s.AwaitGone(t, suite.ConfigMap, s.NS, "x-two-above")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "x-two-below")
	held := map[string]report.Reason{"x-one-above": report.HeldByFinalizer, "x-one-below": report.WaitingForOthers}
	s.Await(t, s.Kind("Parts"), s.NS, "x", reportsPruning(held))
	s.AwaitEvent(t, "x", "PruneBlocked", "example.com/guard", "somebody")
	if err := isNotTerminating(s.Get(t, suite.ConfigMap, s.NS, "x-one-below")); err != nil {
		t.Errorf("x-one-below, on which the blocked object depends, %v", err)
	}

	t.Log("meanwhile the instance is reconciled, and the other chain is included again")
	s.Apply(t, fmt.Sprintf(partsInstance, false, true, "b"))
	s.Await(t, suite.ConfigMap, s.NS, "x-two-above", isNotTerminating)
	s.Await(t, suite.ConfigMap, s.NS, "x-base", func(o *unstructured.Unstructured) error {
		if value, _, _ := unstructured.NestedString(o.Object, "data", "value"); value != "b" {
			return errors.New("has the old value")
		}
		return nil
	})
	s.Await(t, s.Kind("Parts"), s.NS, "x", reportsPruning(held))

	setFinalizers(t, s, suite.ConfigMap, "x-one-above")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "x-one-below")
	s.Await(t, s.Kind("Parts"), s.NS, "x", reportsPruning(nil))
}

// TestAChildThatIsWantedDuringItsPruneIsRecreated includes a node again while its object is
// terminating: the node reports that, and the object is recreated.
func TestAChildThatIsWantedDuringItsPruneIsRecreated(t *testing.T) {
	s := createParts(t)
	setFinalizers(t, s, suite.ConfigMap, "x-one-above", "example.com/guard")
	was := s.Get(t, suite.ConfigMap, s.NS, "x-one-above").GetUID()
	s.Apply(t, fmt.Sprintf(partsInstance, false, true, "a"))
	s.Await(t, s.Kind("Parts"), s.NS, "x", reportsPruning(map[string]report.Reason{"x-one-above": report.HeldByFinalizer, "x-one-below": report.WaitingForOthers}))
	s.Apply(t, fmt.Sprintf(partsInstance, true, true, "a"))
	s.Await(t, s.Kind("Parts"), s.NS, "x", notReadyBecause("ResourceDeleting", "oneAbove", "x-one-above", "example.com/guard"))
	setFinalizers(t, s, suite.ConfigMap, "x-one-above")
	s.Await(t, s.Kind("Parts"), s.NS, "x", reportsPruning(nil))
	if o := s.Get(t, suite.ConfigMap, s.NS, "x-one-above"); o == nil || o.GetUID() == was {
		t.Error("x-one-above was not recreated")
	}
}

// TestAPrunedInstanceReportsItsBlocker prunes a nested instance, while a finalizer blocks the
// deletion of its leaf.
func TestAPrunedInstanceReportsItsBlocker(t *testing.T) {
	s := newSuite(t)
	build(t, s)
	s.Apply(t, suite.Graph("Outer", "spec: {inner: boolean | default=true}", `
    - id: inner
      includeWhen: ["${schema.spec.inner}"]
      template: {apiVersion: $GROUP/v1alpha1, kind: Mid, metadata: {name: other}}
`))
	s.AwaitDefinitions(t, "outer")
	s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Outer\nmetadata: {name: other, namespace: $NS}\n")
	s.AwaitReady(t, s.Kind("Outer"), s.NS, "other")
	setFinalizers(t, s, leaf(s), "other-leaf", "example.com/guard")
	s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Outer\nmetadata: {name: other, namespace: $NS}\nspec: {inner: false}\n")
	s.Await(t, s.Kind("Outer"), s.NS, "other", func(o *unstructured.Unstructured) error {
		pruning := report.ReadPruning(o)
		if i := slices.IndexFunc(pruning, func(b report.Blocker) bool { return b.Reason == report.ChildBlocked }); i < 0 || pruning[i].RootCause().Object.Name != "other-leaf" {
			return fmt.Errorf("reports %+v", pruning)
		}
		return testkit.IsReady(o)
	})
	setFinalizers(t, s, leaf(s), "other-leaf")
	s.AwaitGone(t, s.Kind("Mid"), s.NS, "other")
}
