package jsonschema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/kube/builtin"
	own "github.com/espalier-dev/espalier/internal/kube/jsonschema"
)

// compile returns a validator of the JSON Schema of a kind, by another implementation.
func compile(t *testing.T, kind schema.GroupVersionKind, s *spec.Schema) *jsonschema.Schema {
	t.Helper()
	object, err := own.Of(kind, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("kind.json", document); err != nil {
		t.Fatal(err)
	}
	out, err := c.Compile("kind.json")
	if err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	return out
}

// TestAllKindsOfKubernetesHaveValidSchemas compiles all of them.
func TestAllKindsOfKubernetesHaveValidSchemas(t *testing.T) {
	n := 0
	for _, k := range builtin.Kinds() {
		if info, _ := builtin.Lookup(k.GroupVersionKind()); info.Schema != nil {
			compile(t, k.GroupVersionKind(), info.Schema)
			n++
		}
	}
	if n < 50 {
		t.Errorf("only %d kinds have schemas", n)
	}
}

func TestObjects(t *testing.T) {
	gadget := schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Gadget"}
	var s spec.Schema
	raw, err := yaml.YAMLToJSON([]byte(`
type: object
properties:
  metadata: {type: object}
  spec:
    type: object
    required: [size]
    properties:
      size: {type: integer, minimum: 0, exclusiveMinimum: true}
      port: {x-kubernetes-int-or-string: true}
      note: {type: string, nullable: true, enum: [a, b]}
      labels: {type: object, additionalProperties: {type: string}}
      any: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {known: {type: string}}}
      template: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
      one:
        type: object
        properties: {a: {type: string}, b: {type: string}}
        oneOf: [{required: [a]}, {required: [b], properties: {b: {minLength: 2}}}]
`))
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	validator := compile(t, gadget, &s)
	for spec, want := range map[string]bool{
		`{"size": 1}`:                                true,
		`{"size": 0}`:                                false,
		`{}`:                                         false,
		`{"size": 1, "sise": 1}`:                     false,
		`{"size": 1, "port": "http"}`:                true,
		`{"size": 1, "port": 80}`:                    true,
		`{"size": 1, "port": true}`:                  false,
		`{"size": 1, "note": null}`:                  true,
		`{"size": 1, "note": "c"}`:                   false,
		`{"size": 1, "labels": {"a": "b"}}`:          true,
		`{"size": 1, "labels": {"a": 1}}`:            false,
		`{"size": 1, "any": {"known": "x", "y": 1}}`: true,
		`{"size": 1, "any": {"known": 1}}`:           false,
		`{"size": 1, "template": {"kind": "X"}}`:     false,
		`{"size": 1, "one": {"a": "x"}}`:             true,
		`{"size": 1, "one": {"b": "xy"}}`:            true,
		`{"size": 1, "one": {"b": "x"}}`:             false,
		`{"size": 1, "one": {"a": "x", "b": "xy"}}`:  false,
		`{"size": 1, "template": {"kind": "X", "apiVersion": "v1", "z": {}}}`: true,
	} {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(`{"apiVersion": "example.org/v1", "kind": "Gadget", "metadata": {"name": "x"}, "spec": ` + spec + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if err := validator.Validate(value); (err == nil) != want {
			t.Errorf("%s: %v", spec, err)
		}
	}
	for _, other := range []string{`{"apiVersion": "example.org/v2", "kind": "Gadget"}`, `{"apiVersion": "example.org/v1", "kind": "Other"}`, `{"kind": "Gadget"}`} {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(other))
		if err != nil {
			t.Fatal(err)
		}
		if validator.Validate(value) == nil {
			t.Errorf("%s is accepted", other)
		}
	}
}
