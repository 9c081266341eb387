package compositions

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/condition"
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

	failing := strings.Replace(app[strings.Index(app, "---")+3:], "fromFieldPath: data.size, toFieldPath: status.address",
		"fromFieldPath: data.size, toFieldPath: status.address, transforms: [{type: math, math: {type: Multiply, multiply: 2}}]", 1)
	s.Apply(t, failing)
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

// TestAnInvalidRevisionIsPassedOver: the last valid revision composes a new composite too, and the corrected composition the former one.
func TestAnInvalidRevisionIsPassedOver(t *testing.T) {
	s := suite.New(t)
	kind := createShop(t, s)
	composition := app[strings.Index(app, "---")+3:]
	invalid := strings.Replace(composition, "type: FromCompositeFieldPath, fromFieldPath: spec.size", "type: FromCompositeFieldpath, fromFieldPath: spec.size", 1)
	s.Apply(t, invalid)
	s.AwaitEvent(t, "shop", "InvalidPipeline", "the pipeline of revision 2", "so the composite stays at revision 1")
	shop := s.Await(t, kind, s.NS, "shop", available)
	s.Apply(t, `{apiVersion: $GROUP/v1alpha1, kind: App, metadata: {namespace: $NS, name: later}, spec: {size: large}}`)
	later := s.Await(t, kind, s.NS, "later", available)
	name := func(o *unstructured.Unstructured) string {
		return text(o, "spec", "crossplane", "compositionRevisionRef", "name")
	}
	if name(shop) != name(later) {
		t.Errorf("they are composed by %s and %s", name(shop), name(later))
	}
	var problems []string
	for _, r := range s.List(t, schema.GroupVersionKind{Group: "apiextensions.crossplane.io", Version: "v1", Kind: "CompositionRevision"}, "", "crossplane.io/composition-name="+s.Name("app")) {
		c, _ := condition.Read(&r).Get("ValidPipeline")
		if r.GetName() != name(shop) {
			problems = append(problems, string(c.Status)+" "+c.Reason+" "+c.Message)
		}
	}
	if len(problems) != 1 || !strings.HasPrefix(problems[0], `False InvalidPipeline spec.pipeline[0].input.resources[0].patches[0].type: cannot be "FromCompositeFieldpath"`) {
		t.Errorf("the other revisions say %q", problems)
	}

	s.Apply(t, strings.Replace(composition, "toFieldPath: data.address,", "toFieldPath: data.address2,", 1))
	s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
		if text(composedConfigMaps(t, s, "shop")["front end"], "data", "address2") == "" {
			return fmt.Errorf("it doesn't follow yet: %v", o.Object["spec"])
		}
		return available(o)
	})
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
