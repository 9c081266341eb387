package compositions

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/instance/managedfields"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// applyAs applies an object as another engine does.
func applyAs(t *testing.T, s suite.Suite, kind schema.GroupVersionKind, manager, yaml string) *unstructured.Unstructured {
	t.Helper()
	o := testkit.Parse(t, s.Expand(yaml))[0]
	answer, err := s.Resource(t, kind, o.GetNamespace()).Apply(t.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: manager, Force: true})
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// fieldIs reports whether a field has a value, "" for none, and no other engine owns any.
func fieldIs(o *unstructured.Unstructured, want string, path ...string) error {
	if got := text(o, path...); got != want {
		return fmt.Errorf("%v is %q, and not %q", path, got, want)
	}
	if managedfields.NeedsTransfer(o, managedfields.IsForeign) {
		return fmt.Errorf("other engines own fields of it: %v", o.GetManagedFields())
	}
	return nil
}

func TestFieldsOfAFormerEngineAreRemovedWhenUnwanted(t *testing.T) {
	s := suite.New(t)
	serveFunction(t, s, func(functionInput) functionOutput {
		return functionOutput{resources: map[string]map[string]any{"store": configMap("", map[string]any{"a": "b"})}}
	})
	s.Apply(t, coded)
	kind := s.Kind("Coded")
	s.Apply(t, `
apiVersion: $GROUP/v1alpha1
kind: Coded
metadata: {namespace: $NS, name: shop, finalizers: [composite.apiextensions.crossplane.io], annotations: {crossplane.io/paused: "true"}}
spec: {crossplane: {resourceRefs: [{apiVersion: v1, kind: ConfigMap, name: shop-x7k2p}]}}`)
	shop := s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
		return hasCondition(o, "Synced", "False", "ReconcilePaused")
	})
	const composed = "apiextensions.crossplane.io/composed/4f2a"
	made := applyAs(t, s, suite.ConfigMap, composed, fmt.Sprintf(`
apiVersion: v1
kind: ConfigMap
metadata:
  namespace: $NS
  name: shop-x7k2p
  generateName: shop-
  labels: {crossplane.io/composite: shop}
  annotations: {crossplane.io/composition-resource-name: store}
  ownerReferences: [{apiVersion: $GROUP/v1alpha1, kind: Coded, name: shop, uid: %s, controller: true, blockOwnerDeletion: true}]
data: {a: b, dropped: x}`, shop.GetUID()))
	mergePatch(t, s, kind, s.NS, "shop", `{"metadata":{"annotations":{"crossplane.io/paused":null}}}`)
	s.Await(t, suite.ConfigMap, s.NS, "shop-x7k2p", func(o *unstructured.Unstructured) error {
		return fieldIs(o, "", "data", "dropped")
	})
	taken := s.Get(t, suite.ConfigMap, s.NS, "shop-x7k2p")
	if taken.GetUID() != made.GetUID() || text(taken, "data", "a") != "b" || taken.GetGenerateName() != "shop-" {
		t.Errorf("it is %s", testkit.JSON(taken))
	}
	s.Await(t, kind, s.NS, "shop", available)

	// What is as it was last applied is transferred too: it may have been taken over before, by
	// a version of this program that transferred nothing.
	applyAs(t, s, suite.ConfigMap, composed, `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: $NS, name: shop-x7k2p}, data: {late: x}}`)
	s.Await(t, suite.ConfigMap, s.NS, "shop-x7k2p", func(o *unstructured.Unstructured) error {
		return fieldIs(o, "", "data", "late")
	})
}

func TestClaimFieldsOfAFormerEngineAreRemoved(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, nest)
	top, xtop := s.Kind("Top"), s.Kind("XTop")
	s.Apply(t, `
apiVersion: $GROUP/v1alpha1
kind: Top
metadata: {namespace: $NS, name: shop, annotations: {crossplane.io/paused: "true"}}
spec: {resourceRef: {apiVersion: $GROUP/v1alpha1, kind: XTop, name: $ID-x7k2p}}`)
	s.Await(t, top, s.NS, "shop", func(o *unstructured.Unstructured) error {
		return hasCondition(o, "Synced", "False", "ReconcilePaused")
	})
	applyAs(t, s, xtop, "apiextensions.crossplane.io/claim", `
apiVersion: $GROUP/v1alpha1
kind: XTop
metadata: {name: $ID-x7k2p, labels: {crossplane.io/claim-name: shop, crossplane.io/claim-namespace: $NS}}
spec: {size: small, claimRef: {apiVersion: $GROUP/v1alpha1, kind: Top, namespace: $NS, name: shop}}`)
	mergePatch(t, s, top, s.NS, "shop", `{"metadata":{"annotations":{"crossplane.io/paused":null}}}`)
	s.Await(t, xtop, "", s.Name("x7k2p"), func(o *unstructured.Unstructured) error {
		return fieldIs(o, "", "spec", "size")
	})
	s.Delete(t, top, s.NS, "shop")
	s.AwaitGone(t, top, s.NS, "shop")
}
