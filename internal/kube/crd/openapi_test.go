package crd_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/openapi"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/espalier-dev/espalier/internal/graph/schema"
	"github.com/espalier-dev/espalier/internal/kube/crd"
)

func ptr[T any](v T) *T { return &v }

// broad has every kind of field that expressions meet.
func broad() *extv1.JSONSchemaProps {
	return &extv1.JSONSchemaProps{
		Type: "object", Required: []string{"name"}, Description: "broad",
		XValidations: extv1.ValidationRules{{Rule: "self.size > 0", Message: "too small", OptionalOldSelf: ptr(true)}},
		Properties: map[string]extv1.JSONSchemaProps{
			"name":  {Type: "string", MaxLength: ptr(int64(10)), Enum: []extv1.JSON{{Raw: []byte(`"a"`)}}},
			"size":  {Type: "integer", Default: &extv1.JSON{Raw: []byte("3")}, Minimum: ptr(1.0)},
			"ratio": {Type: "number"},
			"on":    {Type: "boolean", Nullable: true},
			"when":  {Type: "string", Format: "date-time"},
			"port":  {XIntOrString: true},
			"free":  {Type: "object", XPreserveUnknownFields: ptr(true)},
			"raw": {Type: "object", XEmbeddedResource: true, XPreserveUnknownFields: ptr(true), XMapType: ptr("atomic"),
				Properties: map[string]extv1.JSONSchemaProps{"kind": {Type: "string"}}},
			"labels": {Type: "object", AdditionalProperties: &extv1.JSONSchemaPropsOrBool{Schema: &extv1.JSONSchemaProps{Type: "string"}}},
			"items": {Type: "array", MaxItems: ptr(int64(5)), XListType: ptr("map"), XListMapKeys: []string{"key"},
				Items: &extv1.JSONSchemaPropsOrArray{Schema: &extv1.JSONSchemaProps{
					Type: "object", Required: []string{"key"},
					Properties: map[string]extv1.JSONSchemaProps{"key": {Type: "string"}},
				}}},
		},
	}
}

func TestExpressionsSeeTheTypesOfACustomResource(t *testing.T) {
	declared := openapi.SchemaDeclType(crd.OpenAPI(broad()), false)
	want := map[string]string{
		"name": "string", "size": "int", "ratio": "double", "on": "bool", "when": "timestamp", "port": "dyn",
		"free": "object", "raw": "object", "labels": "map", "items": "list",
	}
	got := map[string]string{}
	for name, field := range declared.Fields {
		got[name] = field.Type.TypeName()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	if key := declared.Fields["items"].Type.ElemType.Fields["key"]; key == nil || !key.Required {
		t.Errorf("items[].key is not a required field: %+v", key)
	}
	if name := declared.Fields["raw"].Type.Fields["metadata"].Type.Fields["name"]; name == nil {
		t.Error("an embedded resource has no metadata.name")
	}
	if v := declared.Fields["size"].DefaultValue(); v == nil || v.Value() != int64(3) {
		t.Errorf("the default of an integer is %v", v)
	}
}

func TestExtensionsAreReadBack(t *testing.T) {
	s := crd.OpenAPI(broad())
	read := func(name string) common.Schema { return (&openapi.Schema{Schema: s}).Properties()[name] }
	cases := map[string]struct{ got, want any }{
		"preserve-unknown-fields": {read("free").IsXPreserveUnknownFields(), true},
		"int-or-string":           {read("port").IsXIntOrString(), true},
		"embedded-resource":       {read("raw").IsXEmbeddedResource(), true},
		"list-type":               {read("items").XListType(), "map"},
		"list-map-keys":           {read("items").XListMapKeys(), []string{"key"}},
		"map-type":                {read("raw").XMapType(), "atomic"},
		"validations":             {(&openapi.Schema{Schema: s}).XValidations()[0].Rule(), "self.size > 0"},
		"none on a plain field":   {read("name").IsXPreserveUnknownFields(), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestOpenAPIIsWhatAServerWouldPublish compares with the way through JSON.
func TestOpenAPIIsWhatAServerWouldPublish(t *testing.T) {
	published, err := json.Marshal(broad())
	if err != nil {
		t.Fatal(err)
	}
	var want spec.Schema
	if err := json.Unmarshal(published, &want); err != nil {
		t.Fatal(err)
	}
	expected, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(crd.OpenAPI(broad()))
	if err != nil {
		t.Fatal(err)
	}
	var a, b any
	if json.Unmarshal(expected, &a) != nil || json.Unmarshal(got, &b) != nil {
		t.Fatal("not JSON")
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("(-published +got):\n%s", diff)
	}
}

func TestNoSchemaStaysNone(t *testing.T) {
	if got := crd.OpenAPI(nil); got != nil {
		t.Errorf("got %v", got)
	}
	if got := schema.WithObjectMeta(nil); got == nil || got.Properties["metadata"].Properties == nil {
		t.Errorf("a resource of which nothing is known still has metadata: %v", got)
	}
}

func TestMetadataIsTyped(t *testing.T) {
	in := crd.OpenAPI(&extv1.JSONSchemaProps{Type: "object", Properties: map[string]extv1.JSONSchemaProps{
		"metadata": {Type: "object"}, "spec": {Type: "object", XPreserveUnknownFields: ptr(true)},
	}})
	declared := openapi.SchemaDeclType(schema.WithObjectMeta(in), true)
	want := map[string]string{
		"name": "string", "generateName": "string", "namespace__": "", "uid": "string", "resourceVersion": "string",
		"selfLink": "string", "generation": "int", "creationTimestamp": "timestamp", "deletionTimestamp": "timestamp",
		"deletionGracePeriodSeconds": "int", "labels": "map", "annotations": "map", "finalizers": "list",
		"ownerReferences": "list", "managedFields": "list", "__namespace__": "string",
	}
	// namespace is a reserved word of CEL, and declared escaped.
	delete(want, "namespace__")
	got := map[string]string{}
	for name, field := range declared.Fields["metadata"].Type.Fields {
		got[name] = field.Type.TypeName()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	for _, name := range []string{"apiVersion", "kind", "spec"} {
		if declared.Fields[name] == nil {
			t.Errorf("%s is gone", name)
		}
	}
	if in.Properties["metadata"].Properties != nil {
		t.Error("the schema that was given has been changed")
	}
}
