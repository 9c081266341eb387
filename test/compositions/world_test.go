package compositions

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func TestAnInvalidResourceBlocksNoOther(t *testing.T) {
	s := suite.New(t)
	s.AllowComposing(t, "w.$GROUP")
	var calls atomic.Int64
	widget := schema.GroupVersionKind{Group: "w." + s.Group, Version: "v1", Kind: "Widget"}
	serveFunction(t, s, func(g functionInput) functionOutput {
		calls.Add(1)
		return functionOutput{resources: map[string]map[string]any{
			"store":   configMap("", nil),
			"widget":  {"apiVersion": widget.GroupVersion().String(), "kind": "Widget"},
			"space":   {"apiVersion": "v1", "kind": "Namespace"},
			"foreign": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "foreign", "namespace": "default"}},
			"twice":   configMap("same", nil),
			"twice2":  configMap("same", nil),
			"bad":     configMap("Not_A_Name", nil),
		}}
	})
	kind := createCoded(t, s)
	s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
		if err := hasCondition(o, "Ready", "False", "Creating", `no matches for kind "Widget"`); err != nil {
			return err
		}
		return hasCondition(o, "Synced", "False", "ReconcileError", "Namespace is cluster-scoped", "renders ConfigMap", "Not_A_Name")
	})
	made := composedConfigMaps(t, s, "shop")
	for _, name := range []string{"store", "foreign"} {
		if made[name] == nil {
			t.Errorf("%s is not there", name)
		}
	}
	if made["twice"] != nil || made["twice2"] != nil {
		t.Error("one of two that are one object is there: nothing tells which of them is meant")
	}
	s.Apply(t, suite.CRDText("w.$GROUP", "v1", "Widget", "{type: object}"))
	err := errors.New("no widget yet")
	s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
		if strings.Contains(fmt.Sprint(o.Object["status"]), "Widget") {
			return err
		}
		return nil
	})
	if list := s.List(t, widget, s.NS, ""); len(list) != 1 {
		t.Errorf("there is %v", list)
	}
	s.Delete(t, kind, s.NS, "shop")
	s.AwaitGone(t, kind, s.NS, "shop")
}

func TestAnUnservedKindIsAnError(t *testing.T) {
	s := suite.New(t)
	serveFunction(t, s, func(functionInput) functionOutput {
		return functionOutput{resources: map[string]map[string]any{
			"store":  configMap("", nil),
			"widget": {"apiVersion": "w." + s.Group + "/v1", "kind": "Widget"},
		}}
	})
	kind := createCoded(t, s)
	s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
		return hasCondition(o, "Synced", "False", "ReconcileError", `widget: no matches for kind "Widget"`)
	})
	s.AwaitEvent(t, "shop", "ReconcileError", `widget: no matches for kind "Widget"`)
}

func TestComposedResourcesMayBeOrphaned(t *testing.T) {
	s := suite.New(t)
	kind := createShop(t, s)
	made := composedConfigMaps(t, s, "shop")
	s.DeleteWith(t, kind, s.NS, "shop", metav1.DeletePropagationOrphan)
	s.AwaitGone(t, kind, s.NS, "shop")
	for name, part := range made {
		o := s.Get(t, suite.ConfigMap, s.NS, part.GetName())
		if o == nil || len(o.GetOwnerReferences()) > 0 || len(o.GetLabels()) > 0 {
			t.Errorf("%s is %v", name, o)
		}
	}
}

func TestACompositeIsDeletedInTheForeground(t *testing.T) {
	s := suite.New(t)
	kind := createShop(t, s)
	s.DeleteWith(t, kind, s.NS, "shop", metav1.DeletePropagationForeground)
	s.AwaitGone(t, kind, s.NS, "shop")
	if left := composedConfigMaps(t, s, "shop"); len(left) > 0 {
		t.Errorf("there is left %v", left)
	}
}

func TestAForegroundDeletionOfACompositeKeepsTheOrder(t *testing.T) {
	s := suite.New(t)
	serveFunction(t, s, func(functionInput) functionOutput {
		first, second := configMap("", nil), configMap("", nil)
		first["metadata"] = map[string]any{"annotations": map[string]any{v1alpha1.ApplyOrderAnnotation: "1"}}
		second["metadata"] = map[string]any{"annotations": map[string]any{v1alpha1.ApplyOrderAnnotation: "2", v1alpha1.DependsOnAnnotation: "first"}}
		return functionOutput{resources: map[string]map[string]any{"first": first, "second": second}}
	})
	kind := createCoded(t, s)
	s.Await(t, kind, s.NS, "shop", available)
	made := composedConfigMaps(t, s, "shop")
	first, second := made["first"].GetName(), made["second"].GetName()
	mergePatch(t, s, suite.ConfigMap, s.NS, second, `{"metadata":{"finalizers":["example.com/guard"]}}`)
	s.DeleteWith(t, kind, s.NS, "shop", metav1.DeletePropagationForeground)
	composite := s.Get(t, kind, s.NS, "shop")
	s.Await(t, suite.ConfigMap, s.NS, second, func(o *unstructured.Unstructured) error {
		if o.GetDeletionTimestamp() == nil {
			return errors.New("it isn't being deleted")
		}
		return nil
	})
	s.Await(t, suite.ConfigMap, s.NS, first, func(o *unstructured.Unstructured) error { // the collector has been there
		for _, ref := range o.GetOwnerReferences() {
			if ref.UID == composite.GetUID() {
				return errors.New("it refers to the composite still")
			}
		}
		return nil
	})
	if o := s.Get(t, suite.ConfigMap, s.NS, first); o.GetDeletionTimestamp() != nil {
		t.Error("what the other one stands on goes before it")
	}
	mergePatch(t, s, suite.ConfigMap, s.NS, second, `{"metadata":{"finalizers":null}}`)
	s.AwaitGone(t, kind, s.NS, "shop")
	if left := composedConfigMaps(t, s, "shop"); len(left) > 0 {
		t.Errorf("there is left %v", left)
	}
}

func TestALargeCompositeIsComposedAndDeleted(t *testing.T) {
	s := suite.New(t)
	const many = 100
	serveFunction(t, s, func(g functionInput) functionOutput {
		a := functionOutput{resources: map[string]map[string]any{}}
		for i := range many {
			a.resources[fmt.Sprintf("part %d", i)] = configMap("", nil)
		}
		return a
	})
	kind := createCoded(t, s)
	s.Await(t, kind, s.NS, "shop", available)
	if n := len(composedConfigMaps(t, s, "shop")); n != many {
		t.Errorf("there are %d", n)
	}
	serveFunction(t, s, func(g functionInput) functionOutput { return functionOutput{} })
	mergePatch(t, s, kind, s.NS, "shop", `{"spec":{"name":"none"}}`)
	s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
		if n := len(references(o)); n > 0 {
			return fmt.Errorf("it refers to %d", n)
		}
		return available(o)
	})
	if n := len(composedConfigMaps(t, s, "shop")); n != 0 {
		t.Errorf("there are left %d", n)
	}
}

// All of its instances wait for it, and those of other kinds continue.
func TestAHangingFunctionBlocksNoOtherKind(t *testing.T) {
	s := suite.New(t)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	serveFunction(t, s, func(g functionInput) functionOutput {
		<-release
		return functionOutput{}
	})
	s.Apply(t, coded)
	for i := range 12 {
		s.Apply(t, fmt.Sprintf(`{apiVersion: $GROUP/v1alpha1, kind: Coded, metadata: {namespace: $NS, name: hangs-%d}, spec: {}}`, i))
	}
	s.Apply(t, app)
	s.Apply(t, shopText)
	s.Await(t, s.Kind("App"), s.NS, "shop", available)
}
