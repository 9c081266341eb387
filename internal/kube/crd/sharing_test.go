package crd

import (
	"encoding/json"
	"reflect"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// defined returns a CustomResourceDefinition with the schema of its only version.
func defined(t *testing.T, schema string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var root apiextensionsv1.JSONSchemaProps
	if err := json.Unmarshal([]byte(schema), &root); err != nil {
		t.Fatal(err)
	}
	return &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &root}}},
	}}
}

const (
	conditions = `{"type": "array", "items": {"type": "object", "required": ["type"], "properties": {"type": {"type": "string"}, "status": {"type": "string"}}}}`
	status     = `{"type": "object", "properties": {"conditions": ` + conditions + `, "labels": {"type": "object", "additionalProperties": {"type": "string"}}}}`
)

func TestEqualPartsOfSchemasAreShared(t *testing.T) {
	var s SharedSchemas
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, schema := range []string{
		`{"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}, "status": ` + status + `}}`,
		`{"type": "object", "properties": {"spec": {"type": "object", "properties": {"b": {"type": "string"}}}, "status": ` + status + `}}`,
		`{"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}, "status": ` + status + `}}`,
	} {
		c := defined(t, schema)
		want := c.DeepCopy()
		s.Share(c)
		if !reflect.DeepEqual(c, want) {
			t.Errorf("%s has changed", schema)
		}
		all = append(all, c)
	}
	root := func(i int) *apiextensionsv1.JSONSchemaProps { return all[i].Spec.Versions[0].Schema.OpenAPIV3Schema }
	if root(0) != root(2) || root(0) == root(1) {
		t.Error("only the first and the third are equal")
	}
	same := func(a, b map[string]apiextensionsv1.JSONSchemaProps) bool {
		return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
	}
	if a, b := root(0).Properties["status"], root(1).Properties["status"]; !same(a.Properties, b.Properties) {
		t.Error("the statuses are equal, and not shared")
	}
	if a, b := root(0).Properties["spec"], root(1).Properties["spec"]; same(a.Properties, b.Properties) {
		t.Error("the specs differ, and are shared")
	}
	var again SharedSchemas
	for _, c := range all {
		again.Add(c)
	}
	if s.Len() != again.Len() {
		t.Errorf("%d parts, %d when they are added again", s.Len(), again.Len())
	}
	fourth := defined(t, status)
	again.Share(fourth)
	if a, b := root(0).Properties["status"], fourth.Spec.Versions[0].Schema.OpenAPIV3Schema; !same(a.Properties, b.Properties) {
		t.Error("what was added is not shared")
	}
}

// TestSimilarSchemasAreNotShared has schemas that differ in one keyword each.
func TestSimilarSchemasAreNotShared(t *testing.T) {
	var s SharedSchemas
	seen := map[*apiextensionsv1.JSONSchemaProps]string{}
	for _, schema := range []string{
		`{}`, `{"type": "object"}`, `{"type": "object", "nullable": true}`, `{"type": "object", "default": {}}`, `{"type": "object", "default": {"a": 1}}`,
		`{"type": "object", "x-kubernetes-preserve-unknown-fields": true}`, `{"type": "object", "maxProperties": 1}`, `{"type": "object", "maxProperties": 2}`,
		`{"type": "object", "x-kubernetes-validations": [{"rule": "true"}]}`, `{"type": "object", "x-kubernetes-validations": [{"rule": "false"}]}`,
		`{"type": "object", "anyOf": [{"required": ["a"]}]}`, `{"type": "object", "anyOf": [{"required": ["b"]}]}`,
		`{"type": "object", "additionalProperties": true}`, `{"type": "object", "additionalProperties": {"type": "string"}}`,
		`{"type": "string", "enum": ["a"]}`, `{"type": "string", "enum": ["a", "b"]}`,
		`{"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}`, `{"type": "array", "items": {"type": "string"}}`,
	} {
		c := defined(t, schema)
		want := c.DeepCopy()
		s.Share(c)
		if !reflect.DeepEqual(c, want) {
			t.Errorf("%s has changed", schema)
		}
		root := c.Spec.Versions[0].Schema.OpenAPIV3Schema
		if other, shared := seen[root]; shared {
			t.Errorf("%s is taken for %s", schema, other)
		}
		seen[root] = schema
	}
}
