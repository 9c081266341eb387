package page

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/observe"
)

// schemaField is a field of an instance, as its author or a reader needs it.
type schemaField struct {
	Path     string `json:"path"`
	Type     string `json:"type"`
	Required bool   `json:"required,omitempty"`
	Default  string `json:"default,omitempty"`
	// Limits are what a value must be: its choices, bounds and pattern.
	Limits      []string `json:"limits,omitempty"`
	Description string   `json:"description,omitempty"`
	// Status is true for a field that the controllers set.
	Status bool `json:"status,omitempty"`
}

// maxFields bounds the fields of a schema.
const maxFields = 300

// schemaFields lists the fields of a spec and a status, each before those in it.
func schemaFields(spec, status *apiextensionsv1.JSONSchemaProps) (out []schemaField) {
	var add func(s *apiextensionsv1.JSONSchemaProps, path string, isStatus bool)
	add = func(s *apiextensionsv1.JSONSchemaProps, path string, isStatus bool) {
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			if len(out) == maxFields {
				return
			}
			field := s.Properties[name]
			at := path + "." + name
			out = append(out, schemaField{
				Path: at, Type: typeOf(&field), Required: slices.Contains(s.Required, name), Limits: limitsOf(&field),
				Description: field.Description, Status: isStatus,
			})
			if field.Default != nil {
				out[len(out)-1].Default = observe.Truncate(string(field.Default.Raw), maxValue)
			}
			below := &field
			for below.Items != nil && below.Items.Schema != nil {
				below, at = below.Items.Schema, at+"[]"
			}
			if below.AdditionalProperties != nil && below.AdditionalProperties.Schema != nil {
				below, at = below.AdditionalProperties.Schema, at+".*"
			}
			add(below, at, isStatus)
		}
	}
	if spec != nil {
		add(spec, "spec", false)
	}
	if status != nil {
		add(status, "status", true)
	}
	return out
}

// typeOf names a type as authors write it: string, []string, map[string]object.
func typeOf(s *apiextensionsv1.JSONSchemaProps) string {
	switch {
	case s.Items != nil && s.Items.Schema != nil:
		return "[]" + typeOf(s.Items.Schema)
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		return "map[string]" + typeOf(s.AdditionalProperties.Schema)
	case s.XIntOrString:
		return "integer or string"
	case s.Type == "":
		return "any"
	}
	return s.Type
}

func limitsOf(s *apiextensionsv1.JSONSchemaProps) (out []string) {
	if len(s.Enum) > 0 {
		var values []string
		for _, v := range s.Enum {
			values = append(values, string(v.Raw))
		}
		out = append(out, "one of "+strings.Join(values, ", "))
	}
	number := func(text string, n *float64) {
		if n != nil {
			out = append(out, fmt.Sprintf(text, *n))
		}
	}
	count := func(text string, n *int64) {
		if n != nil {
			out = append(out, fmt.Sprintf(text, *n))
		}
	}
	number("at least %v", s.Minimum)
	number("at most %v", s.Maximum)
	count("at least %d characters", s.MinLength)
	count("at most %d characters", s.MaxLength)
	count("at least %d items", s.MinItems)
	count("at most %d items", s.MaxItems)
	if s.Pattern != "" {
		out = append(out, "matches "+s.Pattern)
	}
	for _, rule := range s.XValidations {
		out = append(out, observe.Truncate(rule.Rule, maxValue))
	}
	return out
}

// compositeFields are the fields of a CompositeResourceDefinition in the version that compositions are for.
func compositeFields(definition *unstructured.Unstructured) (version string, out []schemaField) {
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, v := range versions {
		v, _ := v.(map[string]any)
		if isReferenceable, _ := v["referenceable"].(bool); !isReferenceable && len(versions) > 1 {
			continue
		}
		written, _, _ := unstructured.NestedMap(v, "schema", "openAPIV3Schema")
		raw, err := json.Marshal(written)
		var s apiextensionsv1.JSONSchemaProps
		if err != nil || json.Unmarshal(raw, &s) != nil {
			return "", nil
		}
		spec, status := s.Properties["spec"], s.Properties["status"]
		version, _ = v["name"].(string)
		return version, schemaFields(&spec, &status)
	}
	return "", nil
}
