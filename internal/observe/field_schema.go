package observe

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/espalier-dev/espalier/internal/composition/trace"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// HasField reports whether an object has a field.
func HasField(o *unstructured.Unstructured, field object.Path) bool {
	_, has := trace.At(o.Object, field.Segments())
	return has
}

// CheckField returns an error if objects of a kind cannot have a field, by the kind's schema.
func CheckField(kind string, schema *spec.Schema, field object.Path) error {
	steps := field.Segments()
	for i, step := range steps {
		name, isName := step.(string)
		if !isName {
			if schema = itemsOf(schema); schema == nil {
				return nil
			}
			continue
		}
		var names []string
		if schema, names = fieldOf(schema, name); schema == nil && len(names) == 0 {
			return nil // the schema allows any field
		}
		if schema == nil {
			text := fmt.Sprintf("there is no field %s in %s", object.Path("").Steps(steps[:i+1]...), kind)
			if nearest := diag.Nearest(name, names); nearest != "" {
				text += fmt.Sprintf("; did you mean %q?", object.Path("").Steps(append(slices.Clone(steps[:i]), nearest)...))
			}
			return fmt.Errorf("%s", text)
		}
	}
	return nil
}

// fieldOf returns the schema of a field or, where the object has other fields only, their names; neither if any field is allowed.
func fieldOf(s *spec.Schema, name string) (field *spec.Schema, others []string) {
	if preserve, _ := s.Extensions.GetBool("x-kubernetes-preserve-unknown-fields"); preserve || len(s.AnyOf) > 0 || len(s.OneOf) > 0 {
		return nil, nil
	}
	if s.AdditionalProperties != nil {
		return s.AdditionalProperties.Schema, nil
	}
	if property, found := s.Properties[name]; found {
		return &property, nil
	}
	others = slices.Collect(maps.Keys(s.Properties))
	for i := range s.AllOf {
		field, more := fieldOf(&s.AllOf[i], name)
		if field != nil || len(more) == 0 {
			return field, nil
		}
		others = append(others, more...)
	}
	return nil, others
}

// itemsOf returns the schema of a list's items; nil if that is not known.
func itemsOf(s *spec.Schema) *spec.Schema {
	if s.Items == nil {
		return nil
	}
	return s.Items.Schema
}
