package status

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

var loose = suite.CRDText("$GROUP", "v1alpha1", "Loose",
	"{type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {known: {type: string}}}}}")

const dynamic = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-dynamic}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Dynamic
    group: $GROUP
    spec: {title: string, sizes: "map[string]integer", ports: "[]Port"}
    types: {Port: {name: string, number: integer}}
    status:
      title: ${schema.spec.title}
      self: ${schema.metadata.namespace}/${schema.metadata.name}
      free: ${loose.spec.anything.at[0].number}
      names: ${cells.map(c, c.metadata.name)}
      selected: "${schema.spec.ports.filter(p, p.number > 80).map(p, {'name': p.name, 'number': p.number})}"
      doubled: ${schema.spec.sizes.transformMap(k, v, v * 2)}
      byName: "${schema.spec.ports.transformMapEntry(i, p, {p.name: p.number})}"
      entries: "${schema.spec.sizes.transformList(k, v, k + string(v))}"
      big: ${schema.spec.sizes.exists(k, v, k == "b" && v > 1)}
      thing: ${thing.spec.label}
  resources:
    - id: loose
      template:
        apiVersion: $GROUP/v1alpha1
        kind: Loose
        metadata: {name: loose}
        spec: {known: "${schema.spec.title}", unknown: "u-${schema.spec.title}", anything: {at: ["${schema.spec.ports[0]}"]}}
    - id: cells
      forEach: [{port: "${schema.spec.ports}"}]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "cell-${port.name}"}, data: "${schema.spec.sizes.transformMap(k, v, string(v + port.number))}"}
    - id: crd
      template:
        apiVersion: apiextensions.k8s.io/v1
        kind: CustomResourceDefinition
        metadata: {name: things.$GROUP, labels: {of: "${schema.spec.title}"}}
        spec:
          group: $GROUP
          scope: Namespaced
          names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}
          versions:
            - {name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {label: {type: string}}}}}}}
      readyWhen: ["${crd.status.conditions.exists(c, c.type == 'Established' && c.status == 'True')}"]
    - id: thing
      template: {apiVersion: $GROUP/v1alpha1, kind: Thing, metadata: {name: thing}, spec: {label: "${crd.metadata.labels.of}"}}
`

func TestDynamicFieldsProjectionsAndKindsAsChildren(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, loose)
	s.Apply(t, dynamic)
	s.Apply(t, `
apiVersion: $GROUP/v1alpha1
kind: Dynamic
metadata: {name: one, namespace: $NS}
spec: {title: hello, sizes: {a: 1, b: 2}, ports: [{name: web, number: 80}, {name: tls, number: 443}]}
`)
	t.Log("a kind is made by the definition that has an object of it, and is typed when it is there")
	s.Await(t, s.Kind("Dynamic"), s.NS, "one", suite.All(testkit.IsReady,
		suite.HasField("hello", "status", "title"), suite.HasField(s.NS+"/one", "status", "self"), suite.HasField(int64(80), "status", "free"),
		suite.HasField([]any{"cell-web", "cell-tls"}, "status", "names"),
		suite.HasField([]any{map[string]any{"name": "tls", "number": 443}}, "status", "selected"),
		suite.HasField(map[string]any{"a": 2, "b": 4}, "status", "doubled"),
		suite.HasField(map[string]any{"tls": 443, "web": 80}, "status", "byName"),
		suite.HasField([]any{"a1", "b2"}, "status", "entries"), suite.HasField(true, "status", "big"), suite.HasField("hello", "status", "thing")))
	s.Await(t, s.Kind("Loose"), s.NS, "loose", suite.All(suite.HasField("u-hello", "spec", "unknown")))
	s.Await(t, suite.ConfigMap, s.NS, "cell-tls", suite.All(suite.HasField("445", "data", "b")))
	s.Await(t, suite.CRD, "", "dynamics."+s.Group, func(o *unstructured.Unstructured) error {
		raw := testkit.JSON(o)
		for _, want := range []string{
			`"doubled":{"additionalProperties":{"type":"integer"},"type":"object"}`, `"entries":{"items":{"type":"string"},"type":"array"}`,
			`"free":{"x-kubernetes-preserve-unknown-fields":true}`, `"thing":{"type":"string"}`,
		} {
			if !strings.Contains(raw, want) {
				return errors.New("the status isn't typed as " + want)
			}
		}
		return nil
	})

	t.Log("it is deleted with its children, the object before its kind")
	s.Delete(t, s.Kind("Dynamic"), s.NS, "one")
	s.AwaitGone(t, s.Kind("Dynamic"), s.NS, "one")
	s.AwaitGone(t, suite.CRD, "", "things."+s.Group)

	t.Log("what is not typed is checked by its names")
	s.Apply(t, strings.NewReplacer("known: \"${schema.spec.title}\", unknown", "known: \"${schema.spec.ports[0].number}\", unknown", "cell-${port.name}\"}", "cell-${port.name}\", label: {}}", "scope: Namespaced", "scope: \"${schema.spec.titel}\"").Replace(dynamic))
	s.Await(t, suite.RGD, "", s.Name("dynamic"), suite.HasCondition("GraphAccepted", "False", "InvalidResourceGraph",
		"spec.resources[0].template.spec.known: in \"schema.spec.ports[0].number\" at 1: type mismatch: the expression is an integer; expected a string",
		`template.metadata.label: there is no field "label" here; did you mean "labels"?`,
		"undefined field 'titel' in schema.spec"))
}
