package xrd

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
)

// maxNameLength is how long the name of a composite or claim can be: it is also a label
// value.
const maxNameLength = 63

// parseSchema drops unknown keywords.
func parseSchema(v *v1.DefinitionVersion) (*extv1.JSONSchemaProps, error) {
	if v.Schema == nil || len(v.Schema.OpenAPIV3Schema.Raw) == 0 {
		return nil, errors.New("is required: it defines the fields of the kind")
	}
	out := &extv1.JSONSchemaProps{}
	if err := json.Unmarshal(v.Schema.OpenAPIV3Schema.Raw, out); err != nil {
		return nil, err
	}
	return out, nil
}

// authorSchema is the author's part of the schema of a version: the root's description and rules, the maximum length
// of names, and what authorProperties copies of spec and status. Everything else is ignored.
func authorSchema(v *v1.DefinitionVersion) *extv1.JSONSchemaProps {
	author, err := parseSchema(v)
	if err != nil {
		author = &extv1.JSONSchemaProps{}
	}
	longest := int64(maxNameLength)
	if own := author.Properties["metadata"].Properties["name"].MaxLength; own != nil && *own < longest {
		longest = *own
	}
	spec := authorProperties(author.Properties["spec"])
	spec.XPreserveUnknownFields = author.Properties["spec"].XPreserveUnknownFields
	return &extv1.JSONSchemaProps{
		Type: "object", Description: author.Description, XValidations: author.XValidations,
		Required: []string{"spec"},
		Properties: schemas{
			"apiVersion": stringSchema(),
			"kind":       stringSchema(),
			"metadata":   {Type: "object", Properties: schemas{"name": {Type: "string", MaxLength: &longest}}},
			"spec":       spec,
			"status":     authorProperties(author.Properties["status"]),
		},
	}
}

func authorProperties(author extv1.JSONSchemaProps) extv1.JSONSchemaProps {
	out := extv1.JSONSchemaProps{
		Type: "object", Description: author.Description, Properties: schemas{},
		Required: slices.Clone(author.Required), OneOf: author.OneOf, XValidations: author.XValidations,
	}
	maps.Copy(out.Properties, author.Properties)
	return out
}
