package xrd

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
)

// longestName is how long the name of a composite or claim can be: it is also the value
// of a label.
const longestName = 63

// parse reads the schema of a version as its author wrote it. Keywords that no kind can
// have are left out.
func parse(v *v1.DefinitionVersion) (*extv1.JSONSchemaProps, error) {
	if v.Schema == nil || len(v.Schema.OpenAPIV3Schema.Raw) == 0 {
		return nil, errors.New("is required: it says which fields the kind has")
	}
	out := &extv1.JSONSchemaProps{}
	if err := json.Unmarshal(v.Schema.OpenAPIV3Schema.Raw, out); err != nil {
		return nil, err
	}
	return out, nil
}

// authorSchema is the schema of a version with the author's part of it: of the root its
// description and rules, of metadata how long a name can be, and of spec and status what
// authorPart takes over. The rest is no business of a definition's.
func authorSchema(v *v1.DefinitionVersion) *extv1.JSONSchemaProps {
	author, err := parse(v)
	if err != nil {
		author = &extv1.JSONSchemaProps{}
	}
	longest := int64(longestName)
	if own := author.Properties["metadata"].Properties["name"].MaxLength; own != nil && *own < longest {
		longest = *own
	}
	spec := authorPart(author.Properties["spec"])
	spec.XPreserveUnknownFields = author.Properties["spec"].XPreserveUnknownFields
	return &extv1.JSONSchemaProps{
		Type: "object", Description: author.Description, XValidations: author.XValidations,
		Required: []string{"spec"},
		Properties: fields{
			"apiVersion": text(),
			"kind":       text(),
			"metadata":   {Type: "object", Properties: fields{"name": {Type: "string", MaxLength: &longest}}},
			"spec":       spec,
			"status":     authorPart(author.Properties["status"]),
		},
	}
}

func authorPart(author extv1.JSONSchemaProps) extv1.JSONSchemaProps {
	out := extv1.JSONSchemaProps{
		Type: "object", Description: author.Description, Properties: fields{},
		Required: slices.Clone(author.Required), OneOf: author.OneOf, XValidations: author.XValidations,
	}
	maps.Copy(out.Properties, author.Properties)
	return out
}
