package kube

import (
	"fmt"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSchemasOfFormerDefinitionsAreDropped has definitions come and go, each with fields of its own.
func TestSchemasOfFormerDefinitionsAreDropped(t *testing.T) {
	c := &CRDs{changed: func(_, _ *apiextensionsv1.CustomResourceDefinition) {}}
	define := func(name string) *apiextensionsv1.CustomResourceDefinition {
		o := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
		o.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Schema: &apiextensionsv1.CustomResourceValidation{
			OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{name: {Type: "string"}}},
		}}}
		return o
	}
	c.set("stays", define("stays"))
	for i := range 5 * minSharedParts {
		name := fmt.Sprint("d", i)
		c.set(name, define(name))
		c.set(name, nil)
		if n := c.schemas.Len(); n > minSharedParts+2 {
			t.Fatalf("%d parts of schemas are kept", n)
		}
	}
	c.set("stays", define("stays"))
	before := c.schemas.Len()
	c.set("again", define("stays"))
	if c.schemas.Len() != before {
		t.Error("the schema of a known definition is not shared any more")
	}
}
