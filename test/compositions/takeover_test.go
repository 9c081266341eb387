package compositions

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func references(o *unstructured.Unstructured) []string {
	var out []string
	for _, ref := range xrd.NewInstance(o, xrd.LayoutOf("Namespaced")).ResourceRefs() {
		out = append(out, ref.Kind+" "+ref.Name+" "+ref.ResourceName)
	}
	return out
}

// A composite and its resources are as another implementation of the dialect leaves them:
// it refers to them by names that follow from nothing.
func TestResourcesOfAnotherImplementationAreTakenOver(t *testing.T) {
	s := suite.New(t)
	var calls, fails atomic.Int64
	fails.Store(1)
	serveFunction(t, s, func(g functionInput) functionOutput {
		calls.Add(1)
		if fails.Load() > 0 {
			return functionOutput{err: errors.New("not yet")}
		}
		a := functionOutput{resources: map[string]map[string]any{"store": configMap("", map[string]any{"a": "b"})}}
		if g.resources["store"] == nil || g.resources["old"] == nil && g.resources["store"].GetLabels()["applyset.kubernetes.io/part-of"] == "" {
			t.Errorf("the function sees %v", g.resources)
		}
		return a
	})
	s.Apply(t, coded)
	kind := s.Kind("Coded")
	s.Apply(t, `
apiVersion: $GROUP/v1alpha1
kind: Coded
metadata: {namespace: $NS, name: shop, finalizers: [composite.apiextensions.crossplane.io], annotations: {crossplane.io/paused: "true"}}
spec:
  crossplane:
    resourceRefs:
    - {apiVersion: v1, kind: ConfigMap, name: shop-x7k2p}
    - {apiVersion: v1, kind: ConfigMap, name: shop-v2v8d}
    - {apiVersion: v1, kind: Secret, name: shop-zzzzz}`)
	shop := s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
		return hasCondition(o, "Synced", "False", "ReconcilePaused")
	})
	made := map[string]types.UID{}
	for name, resource := range map[string]string{"shop-x7k2p": "store", "shop-v2v8d": "old"} {
		s.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: ConfigMap
metadata:
  namespace: $NS
  name: %s
  labels: {crossplane.io/composite: shop}
  annotations: {crossplane.io/composition-resource-name: %s}
  ownerReferences: [{apiVersion: $GROUP/v1alpha1, kind: Coded, name: shop, uid: %s, controller: true, blockOwnerDeletion: true}]`, name, resource, shop.GetUID()))
		made[resource] = s.Get(t, suite.ConfigMap, s.NS, name).GetUID()
	}
	patch := `{"metadata":{"annotations":{"crossplane.io/paused":null}}}`
	s.Patch(t, kind, s.NS, "shop", patch)
	failed := s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
		return hasCondition(o, "Synced", "False", "ReconcileError", "not yet")
	})
	if got := references(failed); len(got) < 2 {
		t.Errorf("while its pipeline fails, it refers to %v", got)
	}
	fails.Store(0)
	s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
		if got := references(o); len(got) != 1 || got[0] != "ConfigMap shop-x7k2p store" {
			return fmt.Errorf("it refers to %v", got)
		}
		return available(o)
	})
	s.AwaitGone(t, suite.ConfigMap, s.NS, "shop-v2v8d")
	if got := composedConfigMaps(t, s, "shop"); len(got) != 1 || got["store"].GetUID() != made["store"] || text(got["store"], "data", "a") != "b" {
		t.Errorf("there is %v", got)
	}
	checkAtRest(t, &calls, func() *unstructured.Unstructured { return s.Get(t, kind, s.NS, "shop") })
}

// TestAClaimTakenOverTakesItsCompositeWithIt has a claim that was deleted while no controller was
// running.
func TestAClaimTakenOverTakesItsCompositeWithIt(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, nest)
	top, xtop := s.Kind("Top"), s.Kind("XTop")
	s.Apply(t, `
apiVersion: $GROUP/v1alpha1
kind: Top
metadata: {namespace: $NS, name: shop, finalizers: [finalizer.apiextensions.crossplane.io], annotations: {crossplane.io/paused: "true"}}
spec: {size: small, resourceRef: {apiVersion: $GROUP/v1alpha1, kind: XTop, name: $ID-x7k2p}}`)
	s.Apply(t, `
apiVersion: $GROUP/v1alpha1
kind: XTop
metadata: {name: $ID-x7k2p, labels: {crossplane.io/claim-name: shop, crossplane.io/claim-namespace: $NS}}
spec: {size: small, claimRef: {apiVersion: $GROUP/v1alpha1, kind: Top, namespace: $NS, name: shop}}`)
	s.Await(t, xtop, "", s.Name("x7k2p"), available)
	s.Await(t, top, s.NS, "shop", func(o *unstructured.Unstructured) error {
		return hasCondition(o, "Synced", "False", "ReconcilePaused")
	})
	s.Delete(t, top, s.NS, "shop")
	patch := `{"metadata":{"annotations":{"crossplane.io/paused":null}}}`
	s.Patch(t, top, s.NS, "shop", patch)
	s.AwaitGone(t, top, s.NS, "shop")
	if s.Get(t, xtop, "", s.Name("x7k2p")) != nil {
		t.Error("its composite is there still")
	}
}
