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

// parts has two chains that can be left out, and one that cannot.
const parts = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-parts}
spec:
  schema: {apiVersion: v1alpha1, kind: Parts, group: $GROUP, spec: {one: boolean | default=true, two: boolean | default=true, value: string | default=a}}
  resources:
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
`

const partsInstance = "apiVersion: $GROUP/v1alpha1\nkind: Parts\nmetadata: {name: x, namespace: $NS}\nspec: {one: %t, two: %t, value: %s}\n"

// reportsPruning checks what the status reports objects that nothing wants, by name and
// reason, while the instance is ready.
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
			return fmt.Errorf("tells of %v", got)
		}
		for name, reason := range want {
			if got[name] != reason {
				return fmt.Errorf("tells of %v", got)
			}
		}
		return nil
	}
}

// TestAPruneIsReportedUntilItEnds leaves out two chains, one of which is
// held: the other goes, the instance stays ready and continues, and what is held
// is reported until it has gone.
func TestAPruneIsReportedUntilItEnds(t *testing.T) {
	s := newSuite(t)
	s.Apply(t, parts)
	s.AwaitDefinitions(t, "parts")
	s.Apply(t, fmt.Sprintf(partsInstance, true, true, "a"))
	s.AwaitReady(t, s.Kind("Parts"), s.NS, "x")
	setFinalizers(t, s, suite.ConfigMap, "x-one-above", "example.com/guard")
	s.Apply(t, fmt.Sprintf(partsInstance, false, false, "a"))
	s.AwaitGone(t, suite.ConfigMap, s.NS, "x-two-above")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "x-two-below")
	held := map[string]report.Reason{"x-one-above": report.HeldByFinalizer, "x-one-below": report.WaitingForOthers}
	s.Await(t, s.Kind("Parts"), s.NS, "x", reportsPruning(held))
	s.AwaitEvent(t, "x", "PruneBlocked", "example.com/guard", "somebody")
	if err := isNotTerminating(s.Get(t, suite.ConfigMap, s.NS, "x-one-below")); err != nil {
		t.Errorf("what is held stands on an object that %v", err)
	}

	t.Log("meanwhile the instance continues, and what is left out comes back beside it")
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

// TestAChildThatIsWantedDuringItsPruneIsRecreated wants an object back that is held on
// its way: the node says so, and the object is recreated.
func TestAChildThatIsWantedDuringItsPruneIsRecreated(t *testing.T) {
	s := newSuite(t)
	s.Apply(t, parts)
	s.AwaitDefinitions(t, "parts")
	s.Apply(t, fmt.Sprintf(partsInstance, true, true, "a"))
	s.AwaitReady(t, s.Kind("Parts"), s.NS, "x")
	setFinalizers(t, s, suite.ConfigMap, "x-one-above", "example.com/guard")
	was := s.Get(t, suite.ConfigMap, s.NS, "x-one-above").GetUID()
	s.Apply(t, fmt.Sprintf(partsInstance, false, true, "a"))
	s.Await(t, s.Kind("Parts"), s.NS, "x", reportsPruning(map[string]report.Reason{"x-one-above": report.HeldByFinalizer, "x-one-below": report.WaitingForOthers}))
	s.Apply(t, fmt.Sprintf(partsInstance, true, true, "a"))
	s.Await(t, s.Kind("Parts"), s.NS, "x", notReadyBecause("ResourceDeleting", "oneAbove", "x-one-above", "example.com/guard"))
	setFinalizers(t, s, suite.ConfigMap, "x-one-above")
	s.Await(t, s.Kind("Parts"), s.NS, "x", reportsPruning(nil))
	if o := s.Get(t, suite.ConfigMap, s.NS, "x-one-above"); o == nil || o.GetUID() == was {
		t.Error("it is not a new one")
	}
}

// TestAPrunedInstanceReportsItsBlocker leaves an instance out of another, and
// holds what it consists of.
func TestAPrunedInstanceReportsItsBlocker(t *testing.T) {
	s := newSuite(t)
	build(t, s)
	s.Apply(t, `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-outer}
spec:
  schema: {apiVersion: v1alpha1, kind: Outer, group: $GROUP, spec: {inner: boolean | default=true}}
  resources:
    - id: inner
      includeWhen: ["${schema.spec.inner}"]
      template: {apiVersion: $GROUP/v1alpha1, kind: Mid, metadata: {name: other}}
`)
	s.AwaitDefinitions(t, "outer")
	s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Outer\nmetadata: {name: other, namespace: $NS}\n")
	s.AwaitReady(t, s.Kind("Outer"), s.NS, "other")
	setFinalizers(t, s, leaf(s), "other-leaf", "example.com/guard")
	s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Outer\nmetadata: {name: other, namespace: $NS}\nspec: {inner: false}\n")
	s.Await(t, s.Kind("Outer"), s.NS, "other", func(o *unstructured.Unstructured) error {
		told := report.ReadPruning(o)
		if i := slices.IndexFunc(told, func(b report.Blocker) bool { return b.Reason == report.ChildBlocked }); i < 0 || told[i].RootCause().Object.Name != "other-leaf" {
			return fmt.Errorf("tells of %+v", told)
		}
		return testkit.IsReady(o)
	})
	setFinalizers(t, s, leaf(s), "other-leaf")
	s.AwaitGone(t, s.Kind("Mid"), s.NS, "other")
}
