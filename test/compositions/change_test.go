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

	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestCompositesMoveToANewVersionOfTheirDefinition adds a version to a definition, with a
// composition for it.
func TestCompositesMoveToANewVersionOfTheirDefinition(t *testing.T) {
	s := suite.New(t)
	kind := createShop(t, s)
	made := composedConfigMaps(t, s, "shop")

	definition, composition, _ := strings.Cut(app, "---")
	start := strings.Index(definition, "  - name: v1alpha1")
	version := definition[start:]
	both := definition[:start] + strings.Replace(version, "referenceable: true", "referenceable: false", 1) + strings.TrimRight(strings.Replace(version, "v1alpha1", "v1", 1), "\n") + "\n"
	s.Apply(t, both)
	later := schema.GroupVersionKind{Group: s.Group, Version: "v1", Kind: "App"}
	s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
		return hasCondition(o, "Synced", "False", "ReconcileError", "composition", "v1alpha1")
	})
	s.Apply(t, strings.NewReplacer("$GROUP/v1alpha1", "$GROUP/v1", "$ID-app", "$ID-app-v1").Replace(composition))
	mergePatch(t, s, later, s.NS, "shop", `{"spec":{"size":"large","crossplane":{"compositionRef":{"name":"$ID-app-v1"}}}}`)
	s.Await(t, later, s.NS, "shop", available)
	for name, part := range composedConfigMaps(t, s, "shop") {
		if part.GetUID() != made[name].GetUID() {
			t.Errorf("%s was recreated", name)
		}
		if ref := metav1.GetControllerOf(part); ref == nil || ref.APIVersion != later.GroupVersion().String() || len(part.GetOwnerReferences()) != 2 {
			t.Errorf("%s is controlled by %v", name, part.GetOwnerReferences())
		}
	}
	s.Delete(t, later, s.NS, "shop")
	s.AwaitGone(t, later, s.NS, "shop")
}

func TestADeletedCompositionKeepsComposedResources(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, app)
	_, composition, _ := strings.Cut(app, "---")
	kind := s.Kind("App")
	s.Apply(t, shopText)
	s.Await(t, kind, s.NS, "shop", available)
	made := composedConfigMaps(t, s, "shop")
	s.Delete(t, schema.GroupVersionKind{Group: "apiextensions.crossplane.io", Version: "v1", Kind: "Composition"}, "", s.Name("app"))
	s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
		return hasCondition(o, "Synced", "False", "ReconcileError", "there is no composition")
	})
	s.Apply(t, composition)
	s.Await(t, kind, s.NS, "shop", available)
	for name, part := range composedConfigMaps(t, s, "shop") {
		if part.GetUID() != made[name].GetUID() {
			t.Errorf("%s was recreated", name)
		}
	}
}

// TestAnEnforcedCompositionOverridesTheReferenceOfAClaim enforces a composition after a claim has
// referred to another one.
func TestAnEnforcedCompositionOverridesTheReferenceOfAClaim(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, nest)
	top := s.Kind("Top")
	var others string
	for _, part := range strings.Split(nest, "---") {
		if strings.Contains(part, "metadata: {name: $ID-top}") {
			others = strings.Replace(part, "$ID-top", "$ID-zop", 1)
			s.Apply(t, others)
		}
	}
	s.Apply(t, plainClaim)
	claim := s.Await(t, top, s.NS, "shop", available)
	if got := text(claim, "spec", "compositionRef", "name"); got != s.Name("top") {
		t.Fatalf("it is composed by %s", got)
	}
	mergePatch(t, s, top, s.NS, "shop", `{"spec":{"compositionRef":{"name":"$ID-zop"}}}`)
	by := func(o *unstructured.Unstructured) error {
		if got := text(o, "spec", "compositionRevisionRef", "name"); !strings.HasPrefix(got, s.Name("zop")) {
			return fmt.Errorf("it is composed by %s", got)
		}
		return available(o)
	}
	s.Await(t, top, s.NS, "shop", by)
	definition := strings.Split(nest, "---")[0]
	s.Apply(t, strings.Replace(definition, "  versions:", "  enforcedCompositionRef: {name: $ID-zop}\n  versions:", 1))
	mergePatch(t, s, top, s.NS, "shop", `{"spec":{"size":"large"}}`)
	s.Await(t, top, s.NS, "shop", by)
	mergePatch(t, s, top, s.NS, "shop", `{"spec":{"compositionRef":{"name":"$ID-top"}}}`)
	s.Await(t, top, s.NS, "shop", func(o *unstructured.Unstructured) error {
		if got := text(o, "spec", "compositionRef", "name"); got != s.Name("zop") {
			return fmt.Errorf("it is to be composed by %s", got)
		}
		return by(o)
	})
}

// What it is to have is being made when it is deleted. Before it has a finalizer there is
// nothing yet; while the finalizer is on its way, the API server itself may let a claim go
// that has one by then.
func TestAClaimIsDeletedAtOnce(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, nest)
	top, xtop := s.Kind("Top"), s.Kind("XTop")
	s.Resource(t, top, s.NS)
	for i := range 20 {
		name := fmt.Sprintf("shop-%d", i)
		s.Apply(t, strings.Replace(plainClaim, "name: shop", "name: "+name, 1))
		s.Await(t, top, s.NS, name, func(o *unstructured.Unstructured) error {
			if len(o.GetFinalizers()) == 0 {
				return errors.New("nothing is made for it yet")
			}
			return nil
		})
		s.Delete(t, top, s.NS, name)
	}
	for i := range 20 {
		s.AwaitGone(t, top, s.NS, fmt.Sprintf("shop-%d", i))
	}
	for _, kind := range []schema.GroupVersionKind{xtop, s.Kind("Middle"), s.Kind("Bottom"), suite.ConfigMap} {
		if list := s.List(t, kind, "", "crossplane.io/claim-namespace="+s.NS); len(list) > 0 {
			t.Errorf("of %s there is left %v", kind.Kind, list)
		}
	}
}

// A composite is deleted and made again while what it was composed of is going.
func TestACompositeIsRecreatedWhileItIsDeleted(t *testing.T) {
	s := suite.New(t)
	var calls atomic.Int64
	serveFunction(t, s, func(functionInput) functionOutput {
		calls.Add(1)
		return functionOutput{resources: map[string]map[string]any{"store": configMap("", map[string]any{"a": "b"})}}
	})
	s.Apply(t, coded)
	kind := s.Kind("Coded")
	put := `{apiVersion: $GROUP/v1alpha1, kind: Coded, metadata: {namespace: $NS, name: shop}, spec: {}}`
	s.Apply(t, put)
	s.Await(t, kind, s.NS, "shop", available)
	part := composedConfigMaps(t, s, "shop")["store"]
	s.Apply(t, `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: $NS, name: `+part.GetName()+`, finalizers: [example.com/hold]}}`)
	s.Delete(t, suite.ConfigMap, s.NS, part.GetName())
	s.DeleteWith(t, kind, s.NS, "shop", metav1.DeletePropagationOrphan)
	// The part is going by another client's wish; forget about it.
	mergePatch(t, s, kind, s.NS, "shop", `{"metadata":{"annotations":{"espalier.dev/force-delete":"all"}}}`)
	s.AwaitGone(t, kind, s.NS, "shop")
	s.Apply(t, put)
	s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
		return hasCondition(o, "Ready", "False", "Creating", "being deleted")
	})
	checkAtRest(t, &calls, func() *unstructured.Unstructured { return s.Get(t, kind, s.NS, "shop") })
	s.Apply(t, `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: $NS, name: `+part.GetName()+`, finalizers: []}}`)
	s.Await(t, suite.ConfigMap, s.NS, part.GetName(), func(o *unstructured.Unstructured) error {
		if o == nil || o.GetUID() == part.GetUID() {
			return errors.New("it isn't made anew yet")
		}
		return nil
	})
	s.Await(t, kind, s.NS, "shop", available)
}
