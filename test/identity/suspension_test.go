package identity

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// annotate sets an annotation of an instance, or takes it off where the value is empty.
func annotate(t *testing.T, s suite.Suite, kind, name, key, value string) {
	t.Helper()
	change := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	if value == "" {
		change = fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, key)
	}
	s.PatchAs(t, "operator", s.Kind(kind), s.NS, name, change)
}

// observed checks that a condition tells of an object as it is now.
func observed(kind string) check {
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
			s := begin(t)
			s.Put(t, suite.Box)
			s.Put(t, suite.BoxInstance)
			s.AwaitReady(t, s.Kind("Box"), s.NS, "x")

			annotate(t, s, "Box", "x", "kro.run/reconcile", word)
			s.Await(t, s.Kind("Box"), s.NS, "x", all(
				conditionIs("Ready", "False", "ReconciliationSuspended", "kro.run/reconcile", word, "remove it to go on"),
				conditionIs("ResourcesReady", "False", "ReconciliationSuspended"),
				conditionIs("InstanceManaged", "True", "Managed"), conditionIs("GraphResolved", "True", "Resolved"),
				field("SUSPENDED", "status", "state"), field("ours", "status", "value")))
			s.AwaitEvent(t, "x", "Suspended", "operator", "kro.run/reconcile: "+word)

			t.Log("neither drift nor another spec makes it do anything; that both were seen, its conditions tell")
			edit(t, s, "x-content", "meddler", "theirs")
			s.Put(t, suite.BoxInstance+"spec: {value: next}\n")
			s.Await(t, s.Kind("Box"), s.NS, "x", all(observed("Ready"), conditionIs("Ready", "False", "ReconciliationSuspended"), field("ours", "status", "value")))
			if err := field("theirs", "data", "value")(s.Get(t, configMap, s.NS, "x-content")); err != nil {
				t.Error(err)
			}

			t.Log("when the annotation goes, it goes on")
			annotate(t, s, "Box", "x", "kro.run/reconcile", "")
			s.Await(t, s.Kind("Box"), s.NS, "x", all(testkit.IsReady, field("ACTIVE", "status", "state"), field("next", "status", "value")))
			s.AwaitEvent(t, "x", "Resumed")

			t.Log("and it can be deleted while it is suspended")
			annotate(t, s, "Box", "x", "kro.run/reconcile", word)
			s.Await(t, s.Kind("Box"), s.NS, "x", field("SUSPENDED", "status", "state"))
			s.Delete(t, s.Kind("Box"), s.NS, "x")
			s.AwaitGone(t, s.Kind("Box"), s.NS, "x")
			if s.Get(t, configMap, s.NS, "x-content") != nil {
				t.Error("a child is left over")
			}
		})
	}
}

func TestAnInstanceMayBeSuspendedFromItsStart(t *testing.T) {
	s := begin(t)
	s.Put(t, suite.Box)
	s.Put(t, "\napiVersion: $GROUP/v1alpha1\nkind: Box\nmetadata: {name: x, namespace: $NS, annotations: {kro.run/reconcile: suspended}}\n")
	s.Await(t, s.Kind("Box"), s.NS, "x", all(conditionIs("Ready", "False", "ReconciliationSuspended"), field("SUSPENDED", "status", "state")))
	if s.Get(t, configMap, s.NS, "x-content") != nil {
		t.Error("it has made something")
	}
	s.Put(t, suite.BoxInstance)
	annotate(t, s, "Box", "x", "kro.run/reconcile", "no longer")
	s.Await(t, s.Kind("Box"), s.NS, "x", all(testkit.IsReady, field("ours", "status", "value")))
}
