package crd_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube/crd"
)

// widget returns a CustomResourceDefinition, with the changes.
func widget(changes ...func(*apiextensionsv1.CustomResourceDefinition)) *apiextensionsv1.CustomResourceDefinition {
	c := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name: "widgets.example.com", UID: "1", Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "yes"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{}}`)}}},
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "Widget", Plural: "widgets"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Description: "a widget", Properties: map[string]apiextensionsv1.JSONSchemaProps{
					"size":  {Type: "integer", Description: "how large it is", Default: &apiextensionsv1.JSON{Raw: []byte("1")}},
					"parts": {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "string", Description: "a part"}}},
					"tags":  {Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &apiextensionsv1.JSONSchemaProps{Type: "string", Description: "a tag"}}},
				}},
			}}},
		},
	}
	for _, change := range changes {
		change(c)
	}
	return c
}

func ours(c *apiextensionsv1.CustomResourceDefinition) {
	c.Labels = map[string]string{v1alpha1.OwnedLabel: "true"}
}

func TestStoredComparedIsWhole(t *testing.T) {
	stored := crd.Keep(widget(ours))
	want := widget(ours)
	delete(want.Annotations, "kubectl.kubernetes.io/last-applied-configuration")
	if diff := cmp.Diff(want, stored.Whole()); diff != "" {
		t.Errorf("the whole definition differs:\n%s", diff)
	}
	if diff := cmp.Diff(crd.WithoutSchemas(want), stored.CustomResourceDefinition); diff != "" {
		t.Errorf("what is kept decoded differs:\n%s", diff)
	}
}

func TestStoredOfOthersIsForPrograms(t *testing.T) {
	whole := crd.Keep(widget()).Whole()
	root := whole.Spec.Versions[0].Schema.OpenAPIV3Schema
	descriptions := []string{
		root.Description, root.Properties["size"].Description,
		root.Properties["parts"].Items.Schema.Description, root.Properties["tags"].AdditionalProperties.Schema.Description,
	}
	for _, d := range descriptions {
		if d != "" {
			t.Errorf("the description %q is kept", d)
		}
	}
	if len(whole.ManagedFields) > 0 {
		t.Error("managed fields are kept, which nothing compares")
	}
	if d := root.Properties["size"].Default; d == nil || string(d.Raw) != "1" {
		t.Errorf("the default value became %+v", d)
	}
	if diff := cmp.Diff(map[string]string{"kept": "yes"}, whole.Annotations); diff != "" {
		t.Errorf("the annotations differ:\n%s", diff)
	}
}

func TestVersionsDigest(t *testing.T) {
	before := crd.Keep(widget()).Versions
	for name, tc := range map[string]struct {
		change func(*apiextensionsv1.CustomResourceDefinition)
		equal  bool
	}{
		"nothing":         {func(*apiextensionsv1.CustomResourceDefinition) {}, true},
		"an annotation":   {func(c *apiextensionsv1.CustomResourceDefinition) { c.Annotations["kept"] = "no" }, true},
		"the incarnation": {func(c *apiextensionsv1.CustomResourceDefinition) { c.UID = "2" }, true},
		"a condition": {func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
		}, true},
		"a description": {func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = "other"
		}, true},
		"a field": {func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["more"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
		}, false},
		"a served version": {func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Versions[0].Served = false }, false},
	} {
		t.Run("a change of "+name, func(t *testing.T) {
			if got := crd.Keep(widget(tc.change)).Versions == before; got != tc.equal {
				t.Errorf("the digests are equal: %t", got)
			}
		})
	}
}
