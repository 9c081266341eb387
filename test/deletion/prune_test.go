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

// parts has two chains that can be left out, and one that can't.
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

// pruning checks what the status tells of objects that nothing wants, by name and
// reason, while the instance is ready.
func pruning(want map[string]report.Reason) func(*unstructured.Unstructured) error {
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

// TestWhatIsLeftOutIsVisibleUntilItIsGone leaves out two chains, one of which is
// held: the other goes, the instance stays ready and goes on, and what is held
// is told until it has gone.
func TestWhatIsLeftOutIsVisibleUntilItIsGone(t *testing.T) {
	s := home(t)
	s.Put(t, parts)
	s.Active(t, "parts")
	s.Put(t, fmt.Sprintf(partsInstance, true, true, "a"))
	s.AwaitReady(t, s.Kind("Parts"), s.NS, "x")
	finalizers(t, s, suite.ConfigMap, "x-one-above", "example.com/guard")
	s.Put(t, fmt.Sprintf(partsInstance, false, false, "a"))
	s.AwaitGone(t, suite.ConfigMap, s.NS, "x-two-above")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "x-two-below")
	held := map[string]report.Reason{"x-one-above": report.HeldByFinalizer, "x-one-below": report.WaitingForOthers}
	s.Await(t, s.Kind("Parts"), s.NS, "x", pruning(held))
	s.AwaitEvent(t, "x", "PruneBlocked", "example.com/guard", "somebody")
	if err := stays(s.Get(t, suite.ConfigMap, s.NS, "x-one-below")); err != nil {
		t.Errorf("what is held stands on an object that %v", err)
	}

	t.Log("meanwhile the instance goes on, and what is left out comes back beside it")
	s.Put(t, fmt.Sprintf(partsInstance, false, true, "b"))
	s.Await(t, suite.ConfigMap, s.NS, "x-two-above", stays)
	s.Await(t, suite.ConfigMap, s.NS, "x-base", func(o *unstructured.Unstructured) error {
		if value, _, _ := unstructured.NestedString(o.Object, "data", "value"); value != "b" {
			return errors.New("has the old value")
		}
		return nil
	})
	s.Await(t, s.Kind("Parts"), s.NS, "x", pruning(held))

	finalizers(t, s, suite.ConfigMap, "x-one-above")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "x-one-below")
	s.Await(t, s.Kind("Parts"), s.NS, "x", pruning(nil))
}

// TestWhatIsWantedAgainWhileItGoesIsMadeAnew wants an object back that is held on
// its way: the node says so, and the object is made anew.
func TestWhatIsWantedAgainWhileItGoesIsMadeAnew(t *testing.T) {
	s := home(t)
	s.Put(t, parts)
	s.Active(t, "parts")
	s.Put(t, fmt.Sprintf(partsInstance, true, true, "a"))
	s.AwaitReady(t, s.Kind("Parts"), s.NS, "x")
	finalizers(t, s, suite.ConfigMap, "x-one-above", "example.com/guard")
	was := s.Get(t, suite.ConfigMap, s.NS, "x-one-above").GetUID()
	s.Put(t, fmt.Sprintf(partsInstance, false, true, "a"))
	s.Await(t, s.Kind("Parts"), s.NS, "x", pruning(map[string]report.Reason{"x-one-above": report.HeldByFinalizer, "x-one-below": report.WaitingForOthers}))
	s.Put(t, fmt.Sprintf(partsInstance, true, true, "a"))
	s.Await(t, s.Kind("Parts"), s.NS, "x", because("ResourceDeleting", "oneAbove", "x-one-above", "example.com/guard"))
	finalizers(t, s, suite.ConfigMap, "x-one-above")
	s.Await(t, s.Kind("Parts"), s.NS, "x", pruning(nil))
	if o := s.Get(t, suite.ConfigMap, s.NS, "x-one-above"); o == nil || o.GetUID() == was {
		t.Error("it isn't a new one")
	}
}

// TestAnInstanceThatIsPrunedTellsWhyItStays leaves an instance out of another, and
// holds what it consists of.
func TestAnInstanceThatIsPrunedTellsWhyItStays(t *testing.T) {
	s := home(t)
	build(t, s)
	s.Put(t, `
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
	s.Active(t, "outer")
	s.Put(t, "apiVersion: $GROUP/v1alpha1\nkind: Outer\nmetadata: {name: other, namespace: $NS}\n")
	s.AwaitReady(t, s.Kind("Outer"), s.NS, "other")
	finalizers(t, s, leaf(s), "other-leaf", "example.com/guard")
	s.Put(t, "apiVersion: $GROUP/v1alpha1\nkind: Outer\nmetadata: {name: other, namespace: $NS}\nspec: {inner: false}\n")
	s.Await(t, s.Kind("Outer"), s.NS, "other", func(o *unstructured.Unstructured) error {
		told := report.ReadPruning(o)
		if i := slices.IndexFunc(told, func(b report.Blocker) bool { return b.Reason == report.ChildBlocked }); i < 0 || told[i].Deepest().Object.Name != "other-leaf" {
			return fmt.Errorf("tells of %+v", told)
		}
		return testkit.IsReady(o)
	})
	finalizers(t, s, leaf(s), "other-leaf")
	s.AwaitGone(t, s.Kind("Mid"), s.NS, "other")
}
