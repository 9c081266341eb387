package compositions

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func TestAPausedCompositeIsLeftAlone(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, app)
	kind := s.Kind("App")
	s.Apply(t, `{apiVersion: $GROUP/v1alpha1, kind: App, metadata: {namespace: $NS, name: shop, annotations: {crossplane.io/paused: "true"}}, spec: {size: small}}`)
	paused := func(o *unstructured.Unstructured) error { return hasCondition(o, "Synced", "False", "ReconcilePaused") }
	s.Await(t, kind, s.NS, "shop", paused)
	if made := composedConfigMaps(t, s, "shop"); len(made) > 0 {
		t.Errorf("there is %v", made)
	}
	s.Apply(t, `{apiVersion: $GROUP/v1alpha1, kind: App, metadata: {namespace: $NS, name: shop, annotations: {crossplane.io/paused: "false"}}, spec: {size: small}}`)
	s.Await(t, kind, s.NS, "shop", available)

	s.Apply(t, `{apiVersion: $GROUP/v1alpha1, kind: App, metadata: {namespace: $NS, name: shop, annotations: {crossplane.io/paused: "true"}}, spec: {size: small}}`)
	s.Await(t, kind, s.NS, "shop", paused)
	s.Delete(t, kind, s.NS, "shop")
	s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
		return hasCondition(o, "Synced", "False", "ReconcilePaused", "deletion waits")
	})
	s.Apply(t, `{apiVersion: $GROUP/v1alpha1, kind: App, metadata: {namespace: $NS, name: shop, annotations: {crossplane.io/paused: "false"}}, spec: {size: small}}`)
	s.AwaitGone(t, kind, s.NS, "shop")
}

func TestAFailedPipelineKeepsComposedResources(t *testing.T) {
	s := suite.New(t)
	kind := createShop(t, s)
	made := composedConfigMaps(t, s, "shop")

	broken := strings.Replace(app[strings.Index(app, "---")+3:], "fromFieldPath: data.size, toFieldPath: status.address", "fromFieldPath: data.size, toFieldPath: 'status..address'", 1)
	s.Apply(t, broken)
	s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
		return hasCondition(o, "Synced", "False", "ReconcileError", "cannot compose resources", `step "render"`)
	})
	s.AwaitEvent(t, "shop", "ReconcileError", `step "render"`)
	if left := composedConfigMaps(t, s, "shop"); len(left) != len(made) {
		t.Errorf("there is left %v", left)
	}
	s.Apply(t, app)
	s.Await(t, kind, s.NS, "shop", available)
}

func TestACompositeWithoutACompositionReportsIt(t *testing.T) {
	s := suite.New(t)
	definition, composition, _ := strings.Cut(app, "---")
	s.Apply(t, definition)
	kind := s.Kind("App")
	s.Apply(t, shopText)
	s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
		return hasCondition(o, "Synced", "False", "ReconcileError", "no composition")
	})
	s.Apply(t, composition)
	s.Await(t, kind, s.NS, "shop", available)
}

func TestOneOfSeveralCompositionsIsChosen(t *testing.T) {
	s := suite.New(t)
	definition, composition, _ := strings.Cut(app, "---")
	s.Apply(t, composition)
	s.Apply(t, strings.Replace(composition, "$ID-app", "$ID-abb", 1))
	s.Apply(t, definition)
	kind := s.Kind("App")
	s.Apply(t, shopText)
	shop := s.Await(t, kind, s.NS, "shop", available)
	if got := text(shop, "spec", "crossplane", "compositionRef", "name"); got != s.Name("abb") {
		t.Errorf("it is composed by %s", got)
	}
	s.AwaitEvent(t, "shop", "AmbiguousComposition", s.Name("abb"), s.Name("app"))
}

func TestAManualCompositeStaysWithItsRevision(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, app)
	kind := s.Kind("App")
	for name, policy := range map[string]string{"stays": "Manual", "follows": "Automatic"} {
		s.Apply(t, `{apiVersion: $GROUP/v1alpha1, kind: App, metadata: {namespace: $NS, name: `+name+`}, spec: {size: small, crossplane: {compositionUpdatePolicy: `+policy+`}}}`)
		s.Await(t, kind, s.NS, name, available)
	}
	before := text(s.Get(t, kind, s.NS, "stays"), "spec", "crossplane", "compositionRevisionRef", "name")
	s.Apply(t, strings.Replace(app[strings.Index(app, "---")+3:], "toFieldPath: data.address,", "toFieldPath: data.address2,", 1))
	s.Await(t, kind, s.NS, "follows", func(o *unstructured.Unstructured) error {
		if composedConfigMaps(t, s, "follows")["front end"].Object["data"].(map[string]any)["address2"] == nil {
			return fmt.Errorf("it doesn't follow yet: %v", o.Object["spec"])
		}
		return available(o)
	})
	stays := s.Get(t, kind, s.NS, "stays")
	if got := text(stays, "spec", "crossplane", "compositionRevisionRef", "name"); got != before {
		t.Errorf("it has gone from %s to %s", before, got)
	}
	if text(composedConfigMaps(t, s, "stays")["front end"], "data", "address2") != "" {
		t.Error("it has changed")
	}
}
