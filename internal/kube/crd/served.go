package crd

import (
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Serves reports whether a CustomResourceDefinition serves a version of its kind.
func Serves(c *apiextensionsv1.CustomResourceDefinition, version string) bool {
	return slices.ContainsFunc(c.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == version && v.Served
	})
}

// SchemaOf returns the schema of a version in the form that a compiler reads; nil if the
// version has none.
func SchemaOf(c *apiextensionsv1.CustomResourceDefinition, version string) *spec.Schema {
	return OpenAPI(OriginalSchemaOf(c, version))
}

// OriginalSchemaOf returns the schema of a version; nil if the version has none.
func OriginalSchemaOf(c *apiextensionsv1.CustomResourceDefinition, version string) *apiextensionsv1.JSONSchemaProps {
	for _, v := range c.Spec.Versions {
		if v.Name == version && v.Schema != nil {
			return v.Schema.OpenAPIV3Schema
		}
	}
	return nil
}
