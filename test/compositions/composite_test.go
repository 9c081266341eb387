package compositions

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// app is a namespaced kind that is composed of two ConfigMaps, the second of which reads
// the first.
var app = suite.XRD("v2", "App", "size: {type: string}", "address: {type: string}", "scope: Namespaced") + "---" +
	suite.Composition("app", "App", suite.PatchAndTransform(`
      - name: store
        base: {apiVersion: v1, kind: ConfigMap}
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.size, toFieldPath: data.size}
        - {type: ToCompositeFieldPath, fromFieldPath: data.size, toFieldPath: status.address}
        readinessChecks: [{type: None}]
      - name: front end
        base: {apiVersion: v1, kind: ConfigMap}
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: status.address, toFieldPath: data.address, policy: {fromFieldPath: Required}}
        readinessChecks: [{type: None}]
`)+suite.AutoReady)

const shopText = `{apiVersion: $GROUP/v1alpha1, kind: App, metadata: {namespace: $NS, name: shop}, spec: {size: small}}`

// createShop creates the definition app and the instance shop, waits until that is available,
// and returns the kind.
func createShop(t *testing.T, s suite.Suite) schema.GroupVersionKind {
	t.Helper()
	s.Apply(t, app)
	s.Apply(t, shopText)
	s.Await(t, s.Kind("App"), s.NS, "shop", available)
	return s.Kind("App")
}

// hasCondition reports whether an object has a condition for its present generation.
func hasCondition(o *unstructured.Unstructured, kind string, status metav1.ConditionStatus, reason string, message ...string) error {
	if o == nil {
		return errors.New("it isn't there")
	}
	c, _ := condition.Read(o).Get(kind)
	if c.Status != status || c.Reason != reason || c.ObservedGeneration != o.GetGeneration() {
		return fmt.Errorf("%s is %s, %s of generation %d: %s", kind, c.Status, c.Reason, c.ObservedGeneration, c.Message)
	}
	for _, text := range message {
		if !strings.Contains(c.Message, text) {
			return fmt.Errorf("%s says %q, not %q", kind, c.Message, text)
		}
	}
	return nil
}

func available(o *unstructured.Unstructured) error {
	if err := hasCondition(o, "Synced", "True", "ReconcileSuccess"); err != nil {
		return err
	}
	return hasCondition(o, "Ready", "True", "Available")
}

func text(o *unstructured.Unstructured, path ...string) string {
	if o == nil {
		return "" // as of one without the field
	}
	value, _, _ := unstructured.NestedString(o.Object, path...)
	return value
}

// composedConfigMaps are the ConfigMaps that are composed for a composite, by their names in the
// composition.
func composedConfigMaps(t *testing.T, s suite.Suite, composite string) map[string]*unstructured.Unstructured {
	t.Helper()
	list := s.List(t, suite.ConfigMap, s.NS, "crossplane.io/composite="+composite)
	out := map[string]*unstructured.Unstructured{}
	for i := range list {
		out[list[i].GetAnnotations()["crossplane.io/composition-resource-name"]] = &list[i]
	}
	return out
}

func TestACompositeIsComposed(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, app)
	kind := s.Kind("App")
	s.Apply(t, shopText)
	shop := s.Await(t, kind, s.NS, "shop", available)

	made := composedConfigMaps(t, s, "shop")
	if len(made) != 2 || text(made["store"], "data", "size") != "small" || text(made["front end"], "data", "address") != "small" {
		t.Fatalf("got %v", made)
	}
	if text(shop, "status", "address") != "small" {
		t.Errorf("status is %v", shop.Object["status"])
	}
	for name, part := range made {
		ref := metav1.GetControllerOf(part)
		if ref == nil || ref.UID != shop.GetUID() || ref.Kind != "App" || ref.BlockOwnerDeletion == nil || !*ref.BlockOwnerDeletion {
			t.Errorf("%s is controlled by %v", name, ref)
		}
		if !strings.HasPrefix(part.GetName(), "shop-") {
			t.Errorf("%s has the name %s", name, part.GetName())
		}
	}
	refs, _, _ := unstructured.NestedSlice(shop.Object, "spec", "crossplane", "resourceRefs")
	if len(refs) != 2 {
		t.Errorf("it refers to %v", refs)
	}
	if got := text(shop, "spec", "crossplane", "compositionRef", "name"); got != s.Name("app") {
		t.Errorf("it is composed by %s", got)
	}
	if got := text(shop, "spec", "crossplane", "compositionRevisionRef", "name"); !strings.HasPrefix(got, s.Name("app")) {
		t.Errorf("it is composed by revision %s", got)
	}
	if f := shop.GetFinalizers(); len(f) != 1 || f[0] != "composite.apiextensions.crossplane.io" {
		t.Errorf("it has finalizers %v", f)
	}

	s.Apply(t, `{apiVersion: $GROUP/v1alpha1, kind: App, metadata: {namespace: $NS, name: shop}, spec: {size: large}}`)
	s.Await(t, suite.ConfigMap, s.NS, made["front end"].GetName(), func(o *unstructured.Unstructured) error {
		if text(o, "data", "address") != "large" {
			return fmt.Errorf("data is %v", o.Object["data"])
		}
		return nil
	})
	s.Delete(t, suite.ConfigMap, s.NS, made["store"].GetName())
	s.Await(t, suite.ConfigMap, s.NS, made["store"].GetName(), func(o *unstructured.Unstructured) error {
		if o == nil || o.GetUID() == made["store"].GetUID() {
			return fmt.Errorf("it isn't made anew yet")
		}
		return nil
	})
	s.Delete(t, kind, s.NS, "shop")
	s.AwaitGone(t, kind, s.NS, "shop")
	if left := composedConfigMaps(t, s, "shop"); len(left) != 0 {
		t.Errorf("what is left: %v", left)
	}
}
