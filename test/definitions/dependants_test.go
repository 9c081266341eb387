package definitions

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestABreakingChangeNamesTheDependentDefinitions removes a status field that another definition
// reads. That definition is named in the refusal, and is compiled again when the change is
// forced.
func TestABreakingChangeNamesTheDependentDefinitions(t *testing.T) {
	s := suite.New(t)
	low := func(status, annotations string) {
		t.Helper()
		s.Apply(t, `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-low, annotations: {`+annotations+`}}
spec:
  schema: {apiVersion: v1alpha1, kind: Low, group: $GROUP, spec: {text: string | default=x}, status: {`+status+`}}
  resources: [{id: note, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-low"}, data: {text: "${schema.spec.text}"}}}]
`)
	}
	high := func(reads string) {
		t.Helper()
		s.Apply(t, `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-high}
spec:
  schema: {apiVersion: v1alpha1, kind: High, group: $GROUP, status: {seen: "${low.status.`+reads+`}"}}
  resources: [{id: low, template: {apiVersion: $GROUP/v1alpha1, kind: Low, metadata: {name: "${schema.metadata.name}"}}}]
`)
	}
	const former, latter, allowed = `former: "${note.data.text}"`, `latter: "${note.data.text}"`, `kro.run/allow-breaking-changes: "true"`
	low(former, "")
	s.AwaitDefinitions(t, "low")
	high("former")
	s.AwaitDefinitions(t, "high")
	s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: High\nmetadata: {name: x, namespace: $NS}\n")
	s.AwaitReady(t, s.Kind("High"), s.NS, "x")
	refused := func(names bool) func(*unstructured.Unstructured) error {
		return func(o *unstructured.Unstructured) error {
			told := testkit.ConditionMessage(o, "KindReady")
			named := strings.Contains(told, "ResourceGraphDefinition "+s.Name("high")+": ") && strings.Contains(told, "low.status.former")
			if testkit.ConditionReason(o, "KindReady") != "BreakingChange" || named != names {
				return errors.New("KindReady says " + testkit.ConditionReason(o, "KindReady") + ": " + told)
			}
			return nil
		}
	}
	seen := func(what string) func(*unstructured.Unstructured) error {
		return func(o *unstructured.Unstructured) error {
			if got, _, _ := unstructured.NestedString(o.Object, "status", "seen"); got != what {
				return errors.New("it has seen " + got)
			}
			return testkit.IsReady(o)
		}
	}

	low(latter, "")
	s.Await(t, suite.RGD, "", s.Name("low"), refused(true))
	s.Await(t, s.Kind("High"), s.NS, "x", seen("x")) // what served before continues

	low(former+", "+latter, "")
	s.AwaitDefinitions(t, "low")
	low(latter, "")
	s.Await(t, suite.RGD, "", s.Name("low"), refused(true))
	high("latter")
	s.Await(t, suite.RGD, "", s.Name("low"), refused(false))

	low(latter, allowed)
	s.AwaitDefinitions(t, "low")
	s.Await(t, s.Kind("High"), s.NS, "x", seen("x"))
	low(former, allowed)
	s.AwaitDefinitions(t, "low")
	s.Await(t, suite.RGD, "", s.Name("high"), func(o *unstructured.Unstructured) error {
		if got := testkit.ConditionMessage(o, "GraphAccepted"); testkit.ConditionStatus(o, "GraphAccepted") != "False" || !strings.Contains(got, "latter") {
			return errors.New("it wasn't compiled anew: " + got)
		}
		return nil
	})
}

// TestALateTypeThatBreaksADependentDefinitionIsNotServed creates a kind with a field of another
// type than a definition expects; the definition was accepted while the type was unknown.
func TestALateTypeThatBreaksADependentDefinitionIsNotServed(t *testing.T) {
	s := suite.New(t)
	const lower = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-lower}
spec:
  schema: {apiVersion: v1alpha1, kind: Lower, group: $GROUP, status: {size: "${late.status.size}"}}
  resources: [{id: late, template: {apiVersion: $GROUP/v1, kind: Late, metadata: {name: "${schema.metadata.name}"}}}]
`
	upper := suite.Graph("Upper", "", `
    - {id: lower, template: {apiVersion: $GROUP/v1alpha1, kind: Lower, metadata: {name: "${schema.metadata.name}"}}}
    - {id: content, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}, data: {size: "${%s}"}}}
`)
	late := suite.CRDText("$GROUP", "v1", "Late", "{type: object, properties: {status: {type: object, properties: {size: {type: integer}}}}}")
	s.Apply(t, lower)
	s.AwaitDefinitions(t, "lower")
	s.Apply(t, fmt.Sprintf(upper, "lower.status.size"))
	s.AwaitDefinitions(t, "upper")
	s.Apply(t, late)
	s.Await(t, suite.RGD, "", s.Name("lower"), suite.All(suite.HasField("Inactive", "status", "state"),
		suite.HasCondition("KindReady", "False", "BreaksDependants", s.Name("upper"), "spec.resources[1].template.data.size", "the expression is an integer; expected a string")))
	s.AwaitDefinitions(t, "upper")

	t.Log("its type is served once no definition contradicts it")
	s.Apply(t, fmt.Sprintf(upper, "string(lower.status.size)"))
	s.AwaitDefinitions(t, "lower", "upper")
	crd := s.Get(t, schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, "", "lowers."+s.Group)
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if got, _, _ := unstructured.NestedString(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "status", "properties", "size", "type"); got != "integer" {
		t.Errorf("its size is %q", got)
	}
	s.AwaitDefinitions(t, "upper")
}
