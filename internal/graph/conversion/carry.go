package conversion

import (
	"maps"
	"slices"

	"github.com/espalier-dev/espalier/internal/graph/expr/plain"
)

// kinds of schemas, beside the scalars' own names.
const (
	anything    = "anything"
	structure   = "object"
	mapping     = "map"
	list        = "array"
	intOrString = "int-or-string"
)

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

func valuesOf(s *props) *props {
	if s.AdditionalProperties == nil {
		return nil
	}
	return s.AdditionalProperties.Schema
}

func itemsOf(s *props) *props {
	if s.Items == nil {
		return nil
	}
	return s.Items.Schema
}

// field is the schema of what an object or a map holds by a name; nil if there is no
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

// carries says whether a value of one schema may be put where the other is expected:
// what holds no fields has the same type, and of objects each field is asked by itself.
func carries(from, to *props) bool {
	if from == nil || to == nil || kindOf(from) != kindOf(to) {
		return false
	}
	switch kindOf(from) {
	case mapping:
		return carries(valuesOf(from), valuesOf(to))
	case list:
		return carries(itemsOf(from), itemsOf(to))
	}
	return true
}

// identical says whether two schemas have the same fields with the same types.
func identical(a, b *props) bool {
	if a == nil || b == nil {
		return (a == nil || len(a.Properties) == 0) && (b == nil || len(b.Properties) == 0)
	}
	if !carries(a, b) {
		return false
	}
	switch kindOf(a) {
	case mapping:
		return identical(valuesOf(a), valuesOf(b))
	case list:
		return identical(itemsOf(a), itemsOf(b))
	case structure:
		return slices.Equal(slices.Sorted(maps.Keys(a.Properties)), slices.Sorted(maps.Keys(b.Properties))) &&
			!slices.ContainsFunc(slices.Collect(maps.Keys(a.Properties)), func(name string) bool {
				return !identical(field(a, name), field(b, name))
			})
	}
	return true
}

// carry copies what both schemas have, without what is said otherwise. A value that
// isn't what its schema says is left behind.
func carry(v any, from, to *props, said mention) (any, bool) {
	switch kindOf(from) {
	case structure, mapping:
		fields, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		out := make(map[string]any, len(fields))
		for name, value := range fields {
			was, is := field(from, name), field(to, name)
			if said.gives(name) || !carries(was, is) {
				continue
			}
			if value, ok := carry(value, was, is, said[name]); ok {
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
			item, ok := carry(item, itemsOf(from), itemsOf(to), nil)
			if !ok {
				return nil, false
			}
			out = append(out, item)
		}
		return out, true
	}
	return plain.Copy(v), true
}
