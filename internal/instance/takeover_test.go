package instance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
)

var mine, others = inventory.GraphManagerOf("i"), inventory.GraphManagerOf("another")

// ofKRO is the fixture of a Graph that kro has reconciled, whose status records ConfigMaps that managers have applied.
func ofKRO(t *testing.T, recorded map[string][]string, wanted ...string) *fixture {
	t.Helper()
	f := newFixture(t)
	for _, name := range wanted {
		f.nodes.wanted = append(f.nodes.wanted, configMap(name))
	}
	f.Definition = object.Definition{Namespace: "prod"}
	var list []any
	for name, managers := range recorded {
		o := named(configMapKind, "prod", name)
		o.SetUID(types.UID("uid-" + name))
		o.SetLabels(map[string]string{v1alpha1.NodeIDLabel: name})
		var entries []metav1.ManagedFieldsEntry
		for _, manager := range managers {
			entries = append(entries, metav1.ManagedFieldsEntry{
				Manager: manager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:data":{"f:x":{}}}`)},
			})
		}
		o.SetManagedFields(entries)
		f.put(o)
		list = append(list, map[string]any{"nodeID": name, "apiVersion": "v1", "kind": "ConfigMap", "namespace": "prod", "name": name, "uid": "uid-" + name})
	}
	f.change(shop, func(o *unstructured.Unstructured) {
		o.SetFinalizers([]string{v1alpha1.GraphFinalizer})
		o.Object["status"] = map[string]any{report.ManagedField: list}
	})
	return f
}

func (f *fixture) configMaps() (names []string) {
	for key := range f.objects {
		if key.Kind == "ConfigMap" {
			names = append(names, key.Name)
		}
	}
	slices.Sort(names)
	return names
}

// TestTheObjectsThatKROHasRecordedAreTakenOver, and of these alone the ones that the Graph does not render any more are deleted.
func TestTheObjectsThatKROHasRecordedAreTakenOver(t *testing.T) {
	f := ofKRO(t, map[string][]string{"instance": {mine}, "kept": {mine}, "dropped": {mine, "kubectl"}, "replaced": {mine}, "others": {others}, "both": {mine, others}, "users": {"kubectl"}, "set": {mine}}, "kept", "instance")
	f.change(keyOf("instance"), func(o *unstructured.Unstructured) {
		o.SetLabels(map[string]string{v1alpha1.NodeIDLabel: "instance", v1alpha1.OwnedLabel: "true"})
	})
	f.change(keyOf("replaced"), func(o *unstructured.Unstructured) { o.SetUID("new") })
	f.change(keyOf("set"), func(o *unstructured.Unstructured) {
		o.SetLabels(map[string]string{v1alpha1.ApplySetPartOfLabel: "applyset-x-v1"})
	})
	if out := f.reconcile(); out.Err != nil {
		t.Fatal(out.Err)
	}
	f.reconcile()
	if got := fmt.Sprint(f.configMaps()); got != "[both instance kept others replaced set users]" {
		t.Errorf("left are %s", got)
	}
	for _, name := range []string{"kept", "instance"} {
		o := f.objects[keyOf(name)]
		if string(o.GetUID()) != "uid-"+name || o.GetLabels()[v1alpha1.ApplySetPartOfLabel] != inventory.ApplySetID(shop) || inventory.GraphManager(o) != "" {
			t.Errorf("the object is not taken over: %v", o.Object)
		}
	}
	f.reconcile()
	f.reconcile()
	f.wantCalls()
}

// TestAnInterruptedTakeoverOfAGraphContinues after each of its requests.
func TestAnInterruptedTakeoverOfAGraphContinues(t *testing.T) {
	for n, total := 1, 1; n <= total; n++ {
		f := ofKRO(t, map[string][]string{"kept": {mine}, "dropped": {mine}}, "kept")
		count, crashed := 0, errors.New("crashed")
		f.crash = func(string) error {
			if count++; count >= n {
				return crashed
			}
			return nil
		}
		f.reconcile()
		total = max(total, count)
		f.crash, f.Reconciler.memories = nil, memories{}
		for range 4 {
			f.reconcile()
		}
		if got := fmt.Sprint(f.configMaps()); got != "[kept]" || inventory.GraphManager(f.objects[keyOf("kept")]) != "" {
			t.Errorf("after a crash at request %d of %d, left are %s", n, total, got)
		}
		if n == total && n < 5 {
			t.Errorf("there are only %d requests", n)
		}
	}
}

func TestADeletedGraphOfKROTakesItsObjectsAlong(t *testing.T) {
	f := ofKRO(t, map[string][]string{"a": {mine}, "b": {mine}, "others": {others}}, "a")
	f.confirms = true
	f.delete()
	for range 3 {
		f.reconcile()
	}
	if got := fmt.Sprint(f.configMaps()); got != "[others]" || f.shop() != nil {
		t.Errorf("left are %s, and the Graph is %v", got, f.shop())
	}
}

// TestATakeoverThatFailsKeepsTheRecord: without it, the objects of nodes that are gone would be left behind.
func TestATakeoverThatFailsKeepsTheRecord(t *testing.T) {
	f := ofKRO(t, map[string][]string{"kept": {mine}, "dropped": {mine}}, "kept")
	f.fail["get ConfigMap dropped"] = errors.New("no rights")
	if out := f.reconcile(); out.Err == nil || !strings.Contains(out.Err.Error(), "take over the objects of kro: ConfigMap prod/dropped: no rights") {
		t.Errorf("got %v", out.Err)
	}
	f.wantCondition(v1alpha1.InstanceManaged, "nothing is changed until the objects that kro has recorded are taken over: ConfigMap prod/dropped: no rights")
	if got := report.ReadManaged(f.shop()); len(got) != 2 {
		t.Errorf("recorded are %v", got)
	}
	clear(f.fail)
	for range 3 {
		f.reconcile()
	}
	if got := fmt.Sprint(f.configMaps()); got != "[kept]" {
		t.Errorf("left are %s", got)
	}
}
