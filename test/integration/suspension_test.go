package integration

import (
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/test/suite"
)

// annotate sets an annotation of an instance, or takes it off where the value is empty.
func annotate(t *testing.T, s suite.Suite, kind, name, key, value string) {
	t.Helper()
	change := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	if value == "" {
		change = fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, key)
	}
	if _, err := s.Of(t, s.Kind(kind), s.NS).Patch(t.Context(), name, types.MergePatchType, []byte(change), metav1.PatchOptions{FieldManager: "operator"}); err != nil {
		t.Fatal(err)
	}
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
			s.Put(t, box)
			s.Put(t, boxInstance)
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
			s.Put(t, boxInstance+"spec: {value: next}\n")
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
	s.Put(t, box)
	s.Put(t, "\napiVersion: $GROUP/v1alpha1\nkind: Box\nmetadata: {name: x, namespace: $NS, annotations: {kro.run/reconcile: suspended}}\n")
	s.Await(t, s.Kind("Box"), s.NS, "x", all(conditionIs("Ready", "False", "ReconciliationSuspended"), field("SUSPENDED", "status", "state")))
	if s.Get(t, configMap, s.NS, "x-content") != nil {
		t.Error("it has made something")
	}
	s.Put(t, boxInstance)
	annotate(t, s, "Box", "x", "kro.run/reconcile", "no longer")
	s.Await(t, s.Kind("Box"), s.NS, "x", all(testkit.IsReady, field("ours", "status", "value")))
}

func TestASuspendedInstanceKeepsItsAuthorsConditions(t *testing.T) {
	s := begin(t)
	s.Put(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: switch, namespace: $NS}\ndata: {\"on\": 'yes'}\n")
	s.Put(t, site)
	s.Put(t, "\napiVersion: $GROUP/v1alpha1\nkind: Site\nmetadata: {name: x, namespace: $NS}\nspec: {zones: [a]}\n")
	s.AwaitReady(t, s.Kind("Site"), s.NS, "x")
	annotate(t, s, "Site", "x", "kro.run/reconcile", "suspended")
	s.Await(t, s.Kind("Site"), s.NS, "x", all(
		conditionsAre("Switched=True Switch", "Ready=False ReconciliationSuspended", "Part-a=True", "Worded=True"), field("SUSPENDED", "status", "state"),
		func(o *unstructured.Unstructured) error {
			if got, _, _ := unstructured.NestedInt64(o.Object, "status", "zones"); got != 1 {
				return errors.New("a value is gone")
			}
			return nil
		}))
	annotate(t, s, "Site", "x", "kro.run/reconcile", "")
	s.AwaitReady(t, s.Kind("Site"), s.NS, "x")
}
