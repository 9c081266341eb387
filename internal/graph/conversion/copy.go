package conversion

import (
	"maps"
	"slices"

	"github.com/espalier-dev/espalier/internal/graph/expr/plain"
)

// kinds of schemas, besides the types of scalars.
const (
	anything    = "anything"
	structure   = "object"
	mapping     = "map"
	list        = "array"
	intOrString = "int-or-string"
)

// copyCommon copies the fields that both schemas have, except the assigned ones. It leaves
// out a value that does not match its schema.
func copyCommon(v any, from, to *props, assigned fieldSet) (any, bool) {
	switch kindOf(from) {
	case structure, mapping:
		fields, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		out := make(map[string]any, len(fields))
		for name, value := range fields {
			was, is := field(from, name), field(to, name)
			if assigned.hasWhole(name) || !isAssignable(was, is) {
				continue
			}
			if value, ok := copyCommon(value, was, is, assigned[name]); ok {
				out[name] = value
			}
		}
		return out, true
	case list:
		items, ok := v.([]any)
		if !ok {
			return nil, false
		}
		out := make([]any, 0, len(items))
		for _, item := range items {
			item, ok := copyCommon(item, itemsOf(from), itemsOf(to), nil)
			if !ok {
				return nil, false
			}
			out = append(out, item)
		}
		return out, true
	}
	return plain.Copy(v), true
}

func haveSameFields(a, b *props) bool {
	if a == nil || b == nil {
		return (a == nil || len(a.Properties) == 0) && (b == nil || len(b.Properties) == 0)
	}
	if !isAssignable(a, b) {
		return false
	}
	switch kindOf(a) {
	case mapping:
		return haveSameFields(valuesOf(a), valuesOf(b))
	case list:
		return haveSameFields(itemsOf(a), itemsOf(b))
	case structure:
		return slices.Equal(slices.Sorted(maps.Keys(a.Properties)), slices.Sorted(maps.Keys(b.Properties))) &&
			!slices.ContainsFunc(slices.Collect(maps.Keys(a.Properties)), func(name string) bool {
				return !haveSameFields(field(a, name), field(b, name))
			})
	}
	return true
}

// isAssignable reports whether values of one schema can be copied to the other: scalars, the items of lists and the
// values of maps must have the same type. The fields of objects are compared one by one elsewhere.
func isAssignable(from, to *props) bool {
	if from == nil || to == nil || kindOf(from) != kindOf(to) {
		return false
	}
	switch kindOf(from) {
	case mapping:
		return isAssignable(valuesOf(from), valuesOf(to))
	case list:
		return isAssignable(itemsOf(from), itemsOf(to))
	}
	return true
}

// field returns the schema of an object's field or of a map's values; nil if there is no
// such field.
func field(s *props, name string) *props {
	if s == nil {
		return nil
	}
	if p, ok := s.Properties[name]; ok {
		return &p
	}
	if kindOf(s) == mapping {
		return valuesOf(s)
	}
	return nil
}

func itemsOf(s *props) *props {
	if s.Items == nil {
		return nil
	}
	return s.Items.Schema
}

func valuesOf(s *props) *props {
	if s.AdditionalProperties == nil {
		return nil
	}
	return s.AdditionalProperties.Schema
}

func kindOf(s *props) string {
	switch {
	case s == nil:
		return anything
	case s.XIntOrString:
		return intOrString
	case s.Type == "":
		return anything
	case s.Type != "object" || len(s.Properties) > 0:
		return s.Type
	case valuesOf(s) != nil:
		return mapping
	case s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields, s.AdditionalProperties != nil && s.AdditionalProperties.Allows:
		return anything
	}
	return structure
}
