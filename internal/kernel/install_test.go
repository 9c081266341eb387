package kernel

import (
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

type props = map[string]apiextensionsv1.JSONSchemaProps

func fields(of props) apiextensionsv1.JSONSchemaProps {
	return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: of}
}

func list(item apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	return apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}}
}

func TestWhatASchemaLacks(t *testing.T) {
	yes := true
	wanted := fields(props{"a": {Type: "string"}, "b": fields(props{"c": {Type: "string"}}), "l": list(fields(props{"d": {Type: "string"}}))})
	cases := map[string]struct {
		has  apiextensionsv1.JSONSchemaProps
		want []string
	}{
		"The same lacks nothing":              {wanted, nil},
		"One with more lacks nothing":         {fields(props{"a": {}, "b": wanted.Properties["b"], "l": wanted.Properties["l"], "z": {}}), nil},
		"A field that isn't there is lacking": {fields(props{"b": wanted.Properties["b"], "l": wanted.Properties["l"]}), []string{".a"}},
		"One deeper down is":                  {fields(props{"a": {}, "b": fields(nil), "l": list(fields(nil))}), []string{".b.c", ".l[].d"}},
		"What keeps all fields lacks none":    {fields(props{"a": {}, "b": {XPreserveUnknownFields: &yes}, "l": wanted.Properties["l"]}), nil},
	}
	for name, tc := range cases {
		if got := lacks(&tc.has, &wanted, ""); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestSomebodyElsesDefinitionsMustServeTheVersion(t *testing.T) {
	wanted := &apiextensionsv1.CustomResourceDefinition{}
	wanted.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1alpha1", Schema: &apiextensionsv1.CustomResourceValidation{}}}
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wanted)
	if err != nil {
		t.Fatal(err)
	}
	for served, ok := range map[bool]bool{true: true, false: false} {
		current := wanted.DeepCopy()
		current.Spec.Versions[0].Served = served
		if err := (&Kernel{}).putUpWith(current, &unstructured.Unstructured{Object: raw}); (err == nil) != ok {
			t.Errorf("served: %t, got %v", served, err)
		}
	}
}
