package compositions

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// placed is a kind composed of a ConfigMap, with a value from an EnvironmentConfig. Its functions
// are packages with names that a user has chosen.
var placed = `
apiVersion: pkg.crossplane.io/v1beta1
kind: Function
metadata: {name: $ID-environments}
spec: {package: 'xpkg.example.org/crossplane-contrib/function-environment-configs:v0.4.0'}
---
apiVersion: pkg.crossplane.io/v1
kind: Function
metadata: {name: $ID-answers}
spec: {package: 'xpkg.example.org/crossplane-contrib/function-dummy:v0.4.0'}
` + "---" +
	suite.XRD("v2", "Placed", "stage: {type: string}", "cooler: {type: string}") + `---
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: $ID-placed}
spec:
  compositeTypeRef: {apiVersion: $GROUP/v1alpha1, kind: Placed}
  mode: Pipeline
  publishConnectionDetailsWithStoreConfigRef: {name: default}
  pipeline:
  - step: environment
    functionRef: {name: $ID-environments}
    input:
      apiVersion: environmentconfigs.fn.crossplane.io/v1beta1
      kind: Input
      spec:
        environmentConfigs:
        - type: Reference
          ref: {name: $ID-base}
        - type: Selector
          selector:
            mode: Multiple
            matchLabels:
            - {key: test, type: Value, value: $ID}
            - {key: stage, valueFromFieldPath: spec.stage}
  - step: answer
    functionRef: {name: $ID-answers}
    input:
      apiVersion: dummy.fn.crossplane.io/v1beta1
      kind: Response
      response:
        desired: {composite: {resource: {status: {cooler: yes it is}}}}
        results: [{severity: SEVERITY_NORMAL, message: I am doing a compose!}]
  - step: render
    functionRef: {name: function-patch-and-transform}
    input:
      apiVersion: pt.fn.crossplane.io/v1beta1
      kind: Resources
      comment: nobody knows this field
      resources:
      - name: part
        base: {apiVersion: v1, kind: ConfigMap}
        patches:
        - {type: FromEnvironmentFieldPath, fromFieldPath: place.region, toFieldPath: data.region}
        - {type: FromEnvironmentFieldPath, fromFieldPath: place.zone, toFieldPath: data.zone}
  - step: ready
    functionRef: {name: function-auto-ready}
    input:
      apiVersion: autoready.fn.crossplane.io/v1beta1
      kind: Input
      celHealthCheckCustomization: {_v1_ConfigMap: "object.data.region in ['north', 'south']"}
`

// TestComposedResourcesGetValuesOfTheEnvironment creates the environment after the composite, and
// changes it.
func TestComposedResourcesGetValuesOfTheEnvironment(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, placed)
	kind := s.Kind("Placed")
	s.Apply(t, `{apiVersion: $GROUP/v1alpha1, kind: Placed, metadata: {namespace: $NS, name: shop}, spec: {stage: test}}`)
	s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
		return hasCondition(o, "Synced", "False", "ReconcileError", `step "environment"`, "EnvironmentConfig "+s.Name("base")+" does not exist")
	})
	is := func(region, zone string) {
		t.Helper()
		testkit.Poll(t, "it is in "+region+"/"+zone, func() bool { // what is composed changes, and the composite may not
			part := composedConfigMaps(t, s, "shop")["part"]
			return part != nil && text(part, "data", "region")+"/"+text(part, "data", "zone") == region+"/"+zone
		})
	}
	s.Apply(t, `
apiVersion: apiextensions.crossplane.io/v1alpha1
kind: EnvironmentConfig
metadata: {name: $ID-base}
data: {place: {region: north, zone: a}}`)
	s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
		return hasCondition(o, "Synced", "False", "ReconcileError", `step "render"`, "comment: no such field")
	})
	s.Apply(t, strings.Replace(placed, "      comment: nobody knows this field\n", "", 1))
	is("north", "a")
	shop := s.Await(t, kind, s.NS, "shop", available)
	if got := text(shop, "status", "cooler"); got != "yes it is" {
		t.Errorf("its status has the message %q", got)
	}
	s.AwaitEvent(t, "shop", "ComposeResources", "I am doing a compose!")

	// An EnvironmentConfig is created later, and is changed.
	s.Apply(t, `
apiVersion: apiextensions.crossplane.io/v1beta1
kind: EnvironmentConfig
metadata: {name: $ID-test, labels: {test: $ID, stage: test}}
data: {place: {zone: b}}`)
	is("north", "b")
	const base = `
apiVersion: apiextensions.crossplane.io/v1beta1
kind: EnvironmentConfig
metadata: {name: $ID-base}
data: {place: {region: REGION, zone: a}}`
	s.Apply(t, strings.Replace(base, "REGION", "south", 1))
	is("south", "b")

	// What is composed there is not ready, as its author says.
	s.Apply(t, strings.Replace(base, "REGION", "nowhere", 1))
	s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
		return hasCondition(o, "Ready", "False", "Creating", "part")
	})
	s.Delete(t, kind, s.NS, "shop")
	s.AwaitGone(t, kind, s.NS, "shop")
}
