package compositions

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// sleep waits, for what must not happen.
func sleep(t *testing.T, while time.Duration) {
	select {
	case <-time.After(while):
	case <-t.Context().Done():
	}
}

// checkAtRest checks that no client writes an object and no function is called, after a while in
// which operations in flight may end.
func checkAtRest(t *testing.T, calls *atomic.Int64, get func() *unstructured.Unstructured) {
	t.Helper()
	awaitStable(t, 3*time.Second, func() string {
		return fmt.Sprintf("resource version %s with %d calls", get().GetResourceVersion(), calls.Load())
	})
}

func TestAResourceIsRenamed(t *testing.T) {
	for name, names := range map[string][2]string{"forward": {"alpha", "beta"}, "backward": {"beta", "alpha"}} {
		t.Run(name, func(t *testing.T) {
			s := suite.New(t)
			var calls atomic.Int64
			serveFunction(t, s, func(g functionInput) functionOutput {
				calls.Add(1)
				return functionOutput{resources: map[string]map[string]any{"store": configMap(text(g.composite, "spec", "name"), map[string]any{"a": "b"})}}
			})
			s.Apply(t, coded)
			kind := s.Kind("Coded")
			s.Apply(t, `{apiVersion: $GROUP/v1alpha1, kind: Coded, metadata: {namespace: $NS, name: shop}, spec: {name: `+names[0]+`}}`)
			s.Await(t, kind, s.NS, "shop", available)
			s.Apply(t, `{apiVersion: $GROUP/v1alpha1, kind: Coded, metadata: {namespace: $NS, name: shop}, spec: {name: `+names[1]+`}}`)
			s.Await(t, kind, s.NS, "shop", available)
			s.AwaitGone(t, suite.ConfigMap, s.NS, names[0])
			if s.Get(t, suite.ConfigMap, s.NS, names[1]) == nil {
				t.Error("the new one is not there")
			}
			checkAtRest(t, &calls, func() *unstructured.Unstructured { return s.Get(t, kind, s.NS, "shop") })
		})
	}
}

func TestAResourceOfAnotherKindReplacesTheFormerOne(t *testing.T) {
	s := suite.New(t)
	var calls atomic.Int64
	serveFunction(t, s, func(g functionInput) functionOutput {
		calls.Add(1)
		return functionOutput{resources: map[string]map[string]any{"store": {"apiVersion": "v1", "kind": text(g.composite, "spec", "kind")}}}
	})
	s.Apply(t, coded)
	kind := s.Kind("Coded")
	for _, of := range []string{"ConfigMap", "Secret", "ConfigMap"} {
		s.Apply(t, `{apiVersion: $GROUP/v1alpha1, kind: Coded, metadata: {namespace: $NS, name: shop}, spec: {kind: `+of+`}}`)
		s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
			refs, _, _ := unstructured.NestedSlice(o.Object, "spec", "crossplane", "resourceRefs")
			if len(refs) != 1 || refs[0].(map[string]any)["kind"] != of {
				return fmt.Errorf("it refers to %v", refs)
			}
			return available(o)
		})
	}
	checkAtRest(t, &calls, func() *unstructured.Unstructured { return s.Get(t, kind, s.NS, "shop") })
}

// The names of two resources in the composition are on each other's objects.
func TestSwappedResourceNamesAreCorrected(t *testing.T) {
	s := suite.New(t)
	kind := createShop(t, s)
	made := composedConfigMaps(t, s, "shop")
	for was, is := range map[string]string{"store": "front end", "front end": "store"} {
		patch := `{"metadata":{"annotations":{"crossplane.io/composition-resource-name":"` + is + `"}}}`
		s.Patch(t, suite.ConfigMap, s.NS, made[was].GetName(), patch)
		for name, part := range made {
			s.Await(t, suite.ConfigMap, s.NS, part.GetName(), func(o *unstructured.Unstructured) error {
				if o == nil || o.GetUID() != part.GetUID() {
					return errors.New("it is another one")
				}
				if got := o.GetAnnotations()["crossplane.io/composition-resource-name"]; got != name {
					return fmt.Errorf("the name is %q", got)
				}
				return nil
			})
		}
	}
	s.Await(t, kind, s.NS, "shop", available)
}

// Labels by which a child is found, and its name, can be removed by anybody.
func TestRemovedLabelsAreRestored(t *testing.T) {
	s := suite.New(t)
	kind := createShop(t, s)
	made := composedConfigMaps(t, s, "shop")["store"]
	for _, patch := range []string{
		`{"metadata":{"annotations":{"crossplane.io/composition-resource-name":null}}}`,
		`{"metadata":{"labels":{"applyset.kubernetes.io/part-of":null}}}`,
		`{"metadata":{"labels":{"applyset.kubernetes.io/part-of":null},"annotations":{"crossplane.io/composition-resource-name":null}}}`,
		`{"metadata":{"labels":null,"annotations":null}}`,
	} {
		s.Patch(t, suite.ConfigMap, s.NS, made.GetName(), patch)
		s.Await(t, suite.ConfigMap, s.NS, made.GetName(), func(o *unstructured.Unstructured) error {
			if o == nil || o.GetUID() != made.GetUID() {
				return errors.New("it is another one")
			}
			if o.GetAnnotations()["crossplane.io/composition-resource-name"] != "store" || o.GetLabels()["applyset.kubernetes.io/part-of"] == "" {
				return fmt.Errorf("after %s it has %v, %v", patch, o.GetLabels(), o.GetAnnotations())
			}
			return nil
		})
	}
	if got := composedConfigMaps(t, s, "shop"); len(got) != 2 {
		t.Errorf("there is %v", got)
	}
	s.Await(t, kind, s.NS, "shop", available)
}

func TestRemovedResourceReferencesAreRestored(t *testing.T) {
	s := suite.New(t)
	kind := createShop(t, s)
	made := composedConfigMaps(t, s, "shop")
	for _, refs := range []string{`[]`, `null`, `[{"apiVersion":"v1","kind":"ConfigMap","name":"` + made["store"].GetName() + `","resourceName":"front end"}]`} {
		patch := `{"spec":{"crossplane":{"resourceRefs":` + refs + `}}}`
		s.Patch(t, kind, s.NS, "shop", patch)
		s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
			got, _, _ := unstructured.NestedSlice(o.Object, "spec", "crossplane", "resourceRefs")
			if len(got) != 2 {
				return fmt.Errorf("after %s it refers to %v", refs, got)
			}
			for _, ref := range got {
				ref := ref.(map[string]any)
				if made[ref["resourceName"].(string)].GetName() != ref["name"] {
					return fmt.Errorf("%v", ref)
				}
			}
			return available(o)
		})
	}
	for name, part := range composedConfigMaps(t, s, "shop") {
		if part.GetUID() != made[name].GetUID() {
			t.Errorf("%s is another one", name)
		}
	}
}

// What composes itself could never be deleted.
func TestACompositeIsNotComposedOfItself(t *testing.T) {
	s := suite.New(t)
	var calls atomic.Int64
	serveFunction(t, s, func(g functionInput) functionOutput {
		calls.Add(1)
		return functionOutput{resources: map[string]map[string]any{
			"self":  {"apiVersion": g.composite.GetAPIVersion(), "kind": "Coded", "metadata": map[string]any{"name": g.composite.GetName()}},
			"store": configMap("", nil),
		}}
	})
	kind := createCoded(t, s)
	s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
		return hasCondition(o, "Synced", "False", "ReconcileError", "self", "itself")
	})
	if len(composedConfigMaps(t, s, "shop")) != 1 {
		t.Error("the rest is not there")
	}
	checkAtRest(t, &calls, func() *unstructured.Unstructured { return s.Get(t, kind, s.NS, "shop") })
	s.Delete(t, kind, s.NS, "shop")
	s.AwaitGone(t, kind, s.NS, "shop")
}
