package schema

import (
	"slices"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// PermitsField reports whether a value at a path of an object may have a field of the name, at any depth. A step of
// the path is a name, or "*" for any item. Without a schema every field is permitted.
func PermitsField(s *spec.Schema, path []string, name string) bool {
	switch {
	case s == nil || isFreeForm(s):
		return true
	case slices.ContainsFunc(alternatives(s), func(other spec.Schema) bool { return PermitsField(&other, path, name) }):
		return true
	case len(path) == 0:
		return permitsAnywhere(s, name)
	}
	if property, known := s.Properties[path[0]]; known {
		return PermitsField(&property, path[1:], name)
	}
	if path[0] == "*" {
		for _, property := range s.Properties {
			if PermitsField(&property, path[1:], name) {
				return true
			}
		}
		if s.Items != nil && PermitsField(s.Items.Schema, path[1:], name) {
			return true
		}
	}
	return s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil && PermitsField(s.AdditionalProperties.Schema, path[1:], name)
}

func permitsAnywhere(s *spec.Schema, name string) bool {
	for property, below := range s.Properties {
		if property == name || PermitsField(&below, nil, name) {
			return true
		}
	}
	return s.Items != nil && PermitsField(s.Items.Schema, nil, name) ||
		s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil && PermitsField(s.AdditionalProperties.Schema, nil, name)
}

func alternatives(s *spec.Schema) []spec.Schema {
	if len(s.Type) > 0 {
		return s.AllOf // the others of a structural schema name no further fields
	}
	return slices.Concat(s.AllOf, s.AnyOf, s.OneOf)
}

// isFreeForm reports whether a schema permits fields that it does not name. Published schemas describe free-form
// objects as objects without properties.
func isFreeForm(s *spec.Schema) bool {
	_, preserves := s.Extensions["x-kubernetes-preserve-unknown-fields"]
	_, embedded := s.Extensions["x-kubernetes-embedded-resource"]
	_, intOrString := s.Extensions["x-kubernetes-int-or-string"]
	if preserves || embedded || s.Ref.GetURL() != nil || s.AdditionalProperties != nil && s.AdditionalProperties.Allows && s.AdditionalProperties.Schema == nil {
		return true
	}
	switch {
	case len(s.Properties) > 0:
		return false
	case s.Type.Contains("object"):
		return s.AdditionalProperties == nil && len(s.AllOf) == 0
	case s.Type.Contains("array"):
		return s.Items == nil || s.Items.Schema == nil
	default:
		return len(s.Type) == 0 && !intOrString && len(alternatives(s)) == 0
	}
}
