package crd

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func TestAPackedSchemaIsTheSame(t *testing.T) {
	yes, most := true, 10.0
	set := "set"
	for name, s := range map[string]*apiextensionsv1.JSONSchemaProps{
		"none":  nil,
		"empty": {},
		"an object": {Type: "object", Required: []string{"a"}, Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"a": {Type: "number", Maximum: &most, Default: &apiextensionsv1.JSON{Raw: []byte("3")}, Enum: []apiextensionsv1.JSON{{Raw: []byte("3")}, {Raw: []byte("4")}}},
			"b": {XPreserveUnknownFields: &yes, Description: "anything"},
			"c": {Type: "array", XListType: &set, Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "string", Format: "date"}}},
			"d": {Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &apiextensionsv1.JSONSchemaProps{XIntOrString: true}}},
			"e": {Type: "string", Nullable: true, XValidations: apiextensionsv1.ValidationRules{{Rule: "self != ''", Message: "is empty"}}},
		}},
	} {
		if diff := cmp.Diff(s, PackSchema(s).Unpack()); diff != "" {
			t.Errorf("%s (-before +after):\n%s", name, diff)
		}
	}
}
