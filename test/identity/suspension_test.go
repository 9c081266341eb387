package identity

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// annotate sets an annotation of an instance, or removes it where the value is empty.
func annotate(t *testing.T, s suite.Suite, kind, name, key, value string) {
	t.Helper()
	change := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	if value == "" {
		change = fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, key)
	}
	s.PatchAs(t, "operator", s.Kind(kind), s.NS, name, change)
}

// observed checks that a condition reports an object as it is now.
func observed(kind string) suite.Check {
	return func(o *unstructured.Unstructured) error {
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, c := range conditions {
			if m := c.(map[string]any); m["type"] == kind && m["observedGeneration"] == o.GetGeneration() {
				return nil
			}
		}
		return fmt.Errorf("%s doesn't tell of generation %d", kind, o.GetGeneration())
	}
}

func TestASuspendedInstanceIsLeftAsItIs(t *testing.T) {
	for _, word := range []string{"suspended", "Disabled"} {
		t.Run(word, func(t *testing.T) {
			s := suite.New(t)
			s.Apply(t, suite.Box)
			s.Apply(t, suite.BoxInstance)
			s.AwaitReady(t, s.Kind("Box"), s.NS, "x")

			annotate(t, s, "Box", "x", "kro.run/reconcile", word)
			s.Await(t, s.Kind("Box"), s.NS, "x", suite.All(
				suite.HasCondition("Ready", "False", "ReconciliationSuspended", "kro.run/reconcile", word, "remove it to continue"),
				suite.HasCondition("ResourcesReady", "False", "ReconciliationSuspended"),
				suite.HasCondition("InstanceManaged", "True", "Managed"), suite.HasCondition("GraphResolved", "True", "Resolved"),
				suite.HasField("SUSPENDED", "status", "state"), suite.HasField("ours", "status", "value")))
			s.AwaitEvent(t, "x", "Suspended", "operator", "kro.run/reconcile: "+word)

			t.Log("neither drift nor another spec makes it do anything; that both were seen, its conditions tell")
			edit(t, s, "x-content", "meddler", "theirs")
			s.Apply(t, suite.BoxInstance+"spec: {value: next}\n")
			s.Await(t, s.Kind("Box"), s.NS, "x", suite.All(observed("Ready"), suite.HasCondition("Ready", "False", "ReconciliationSuspended"), suite.HasField("ours", "status", "value")))
			if err := suite.HasField("theirs", "data", "value")(s.Get(t, suite.ConfigMap, s.NS, "x-content")); err != nil {
				t.Error(err)
			}

			t.Log("it continues when the annotation is removed")
			annotate(t, s, "Box", "x", "kro.run/reconcile", "")
			s.Await(t, s.Kind("Box"), s.NS, "x", suite.All(testkit.IsReady, suite.HasField("ACTIVE", "status", "state"), suite.HasField("next", "status", "value")))
			s.AwaitEvent(t, "x", "Resumed")

			t.Log("and it can be deleted while it is suspended")
			annotate(t, s, "Box", "x", "kro.run/reconcile", word)
			s.Await(t, s.Kind("Box"), s.NS, "x", suite.HasField("SUSPENDED", "status", "state"))
			s.Delete(t, s.Kind("Box"), s.NS, "x")
			s.AwaitGone(t, s.Kind("Box"), s.NS, "x")
			if s.Get(t, suite.ConfigMap, s.NS, "x-content") != nil {
				t.Error("a child is left over")
			}
		})
	}
}

func TestAnInstanceMayBeSuspendedFromItsStart(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, suite.Box)
	s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Box\nmetadata: {name: x, namespace: $NS, annotations: {kro.run/reconcile: suspended}}\n")
	s.Await(t, s.Kind("Box"), s.NS, "x", suite.All(suite.HasCondition("Ready", "False", "ReconciliationSuspended"), suite.HasField("SUSPENDED", "status", "state")))
	if s.Get(t, suite.ConfigMap, s.NS, "x-content") != nil {
		t.Error("it has made something")
	}
	s.Apply(t, suite.BoxInstance)
	annotate(t, s, "Box", "x", "kro.run/reconcile", "no longer")
	s.Await(t, s.Kind("Box"), s.NS, "x", suite.All(testkit.IsReady, suite.HasField("ours", "status", "value")))
}
