package identity

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// kroGraph is the manager of a Graph that kro reconciles in the same cluster.
const kroGraph = "kro-graphengine.tmpl.0123456789ab"

// applyAsGraph applies a ConfigMap as kro does for a Graph. Without data it releases the object.
func applyAsGraph(t *testing.T, s suite.Suite, name string, data map[string]any) {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}}}
	o.SetGroupVersionKind(suite.ConfigMap)
	if data != nil {
		o.Object["data"] = data
	}
	if _, err := s.Resource(t, suite.ConfigMap, s.NS).Apply(t.Context(), name, o, metav1.ApplyOptions{FieldManager: kroGraph, Force: true}); err != nil {
		t.Fatal(err)
	}
}

const adopting = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-adopting}
spec:
  schema: {apiVersion: v1alpha1, kind: Adopting, group: $GROUP, spec: {text: string}}
  resources:
    - id: content
      adopt: IfUnowned
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: content}, data: {text: "${schema.spec.text}"}}
`

func TestAnObjectOfAGraphOfKroIsForeign(t *testing.T) {
	s := suite.New(t)
	instance := func(text string) string {
		return "\napiVersion: $GROUP/v1alpha1\nkind: Adopting\nmetadata: {name: x, namespace: $NS}\nspec: {text: " + text + "}\n"
	}
	foreign := suite.HasCondition("Ready", "False", "NotOwned", "a Graph of kro (field manager "+kroGraph+")", "it is not changed")
	applyAsGraph(t, s, "content", map[string]any{"other": "kro"})
	s.Apply(t, adopting)
	s.AwaitDefinitions(t, "adopting")
	s.Apply(t, instance("one"))
	s.Await(t, s.Kind("Adopting"), s.NS, "x", foreign)
	if o := s.Get(t, suite.ConfigMap, s.NS, "content"); len(o.GetLabels()) > 0 {
		t.Errorf("it is changed: %v", o.GetLabels())
	}

	t.Log("it is adopted when the Graph has released it")
	applyAsGraph(t, s, "content", nil)
	s.Await(t, suite.ConfigMap, s.NS, "content", suite.HasField("one", "data", "text"))
	s.AwaitReady(t, s.Kind("Adopting"), s.NS, "x")

	t.Log("the instance's own object is left alone while a Graph applies it")
	applyAsGraph(t, s, "content", map[string]any{"other": "kro"})
	s.Apply(t, instance("two"))
	s.Await(t, s.Kind("Adopting"), s.NS, "x", foreign)
	s.Await(t, suite.ConfigMap, s.NS, "content", suite.All(suite.HasField("one", "data", "text"), suite.HasField("kro", "data", "other")))
	applyAsGraph(t, s, "content", nil)
	s.Await(t, suite.ConfigMap, s.NS, "content", suite.HasField("two", "data", "text"))
	s.AwaitReady(t, s.Kind("Adopting"), s.NS, "x")
}

const reporting = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-reporting}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Reporting
    group: $GROUP
    spec: {text: string}
    status: {text: "${content.data.text}", former: "${content.data.?former}"}
  resources:
    - {id: content, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: reported}, data: {text: "${schema.spec.text}"}}}
`

// TestTheStatusThatKroAppliedIsReplaced has an instance whose status kro has applied, with a field that the instance has no more.
func TestTheStatusThatKroAppliedIsReplaced(t *testing.T) {
	const manager, contributions = "kro-graphengine.patch.0123456789ab.ba9876543210", "internal.kro.run/patch-contributions"
	s := suite.New(t)
	s.Apply(t, reporting)
	s.AwaitDefinitions(t, "reporting")
	kind := s.Kind("Reporting")
	s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Reporting\nmetadata: {name: x, namespace: $NS, annotations: {kro.run/reconcile: suspended, "+contributions+": '[]'}}\nspec: {text: ours}\n")
	applied := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "x"}, "status": map[string]any{"text": "theirs", "former": "theirs"},
	}}
	applied.SetGroupVersionKind(kind)
	if _, err := s.Resource(t, kind, s.NS).Apply(t.Context(), "x", applied, metav1.ApplyOptions{FieldManager: manager, Force: true}, "status"); err != nil {
		t.Fatal(err)
	}
	s.Await(t, kind, s.NS, "x", suite.HasField("theirs", "status", "former"))

	s.Patch(t, kind, s.NS, "x", `{"metadata":{"annotations":{"kro.run/reconcile":null}}}`)
	s.AwaitReady(t, kind, s.NS, "x")
	s.Await(t, kind, s.NS, "x", suite.All(suite.HasField("ours", "status", "text"), suite.HasField(nil, "status", "former"),
		suite.HasField("[]", "metadata", "annotations", contributions)))
	s.Delete(t, kind, s.NS, "x")
	s.AwaitGone(t, kind, s.NS, "x")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "reported")
}
