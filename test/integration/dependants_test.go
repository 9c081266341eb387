package integration

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit"
)

// TestAChangeThatWouldBreakWhoComposesAKindNamesThem takes a field away that another
// definition reads: that one is named as long as it does, and compiled anew when the change
// goes ahead all the same.
func TestAChangeThatWouldBreakWhoComposesAKindNamesThem(t *testing.T) {
	s := begin(t)
	low := func(status, annotations string) {
		t.Helper()
		s.Put(t, `
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
		s.Put(t, `
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
	s.Active(t, "low")
	high("former")
	s.Active(t, "high")
	s.Put(t, "\napiVersion: $GROUP/v1alpha1\nkind: High\nmetadata: {name: x, namespace: $NS}\n")
	s.AwaitReady(t, s.Kind("High"), s.NS, "x")
	refused := func(names bool) func(*unstructured.Unstructured) error {
		return func(o *unstructured.Unstructured) error {
			told := testkit.Message(o, "KindReady")
			named := strings.Contains(told, "ResourceGraphDefinition "+s.Name("high")+": ") && strings.Contains(told, "low.status.former")
			if testkit.ReasonOf(o, "KindReady") != "BreakingChange" || named != names {
				return errors.New("KindReady says " + testkit.ReasonOf(o, "KindReady") + ": " + told)
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
	s.Await(t, rgd, "", s.Name("low"), refused(true))
	s.Await(t, s.Kind("High"), s.NS, "x", seen("x")) // what served before goes on

	low(former+", "+latter, "")
	s.Active(t, "low")
	low(latter, "")
	s.Await(t, rgd, "", s.Name("low"), refused(true))
	high("latter")
	s.Await(t, rgd, "", s.Name("low"), refused(false))

	low(latter, allowed)
	s.Active(t, "low")
	s.Await(t, s.Kind("High"), s.NS, "x", seen("x"))
	low(former, allowed)
	s.Active(t, "low")
	s.Await(t, rgd, "", s.Name("high"), func(o *unstructured.Unstructured) error {
		if got := testkit.Message(o, "GraphAccepted"); testkit.Condition(o, "GraphAccepted") != "False" || !strings.Contains(got, "latter") {
			return errors.New("it wasn't compiled anew: " + got)
		}
		return nil
	})
}
