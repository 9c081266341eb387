package crd

import (
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// Structural returns the structural schema of a version of a kind.
func Structural(c *apiextensionsv1.CustomResourceDefinition, version string) (*structural.Structural, error) {
	internal, err := InternalSchema(c, version)
	if err != nil {
		return nil, err
	}
	return structural.NewStructural(internal)
}

// InternalSchema returns the schema of a version of a kind, in the form that the libraries of the API server take.
func InternalSchema(c *apiextensionsv1.CustomResourceDefinition, version string) (*apiextensions.JSONSchemaProps, error) {
	for _, v := range c.Spec.Versions {
		if v.Name != version || v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			continue
		}
		var internal apiextensions.JSONSchemaProps
		err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, &internal, nil)
		return &internal, err
	}
	return nil, fmt.Errorf("%s has no schema of version %s", GroupKind(c), version)
}
