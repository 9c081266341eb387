package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/internal/object"
)

// misfit tells why the API server would refuse the value v, whose numbers are
// json.Number, or "" when it would not. It says nothing of CEL rules.
func misfit(s *extv1.JSONSchemaProps, v any, at object.Path) string {
	why := ""
	switch s.Type {
	case "":
		return ""
	case "string":
		why = misfitText(s, v)
	case "boolean":
		if _, ok := v.(bool); !ok {
			why = fmt.Sprintf("%s is not a boolean", encode(v))
		}
	case "integer", "number":
		why = misfitNumber(s, v)
	case "array":
		return misfitList(s, v, at)
	case "object":
		return misfitObject(s, v, at)
	}
	if why == "" && len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, func(e extv1.JSON) bool { return same(e.Raw, v) }) {
		why = fmt.Sprintf("%s is not one of %s", encode(v), joined(s.Enum))
	}
	return within(at, why)
}

// within says where inside the value something is wrong.
func within(at object.Path, why string) string {
	if why == "" || at == "" {
		return why
	}
	return string(at) + ": " + why
}

func same(raw []byte, v any) bool {
	e, err := decode(string(raw))
	return err == nil && string(encode(e)) == string(encode(v))
}

func joined(values []extv1.JSON) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = string(v.Raw)
	}
	return strings.Join(words, ", ")
}

func misfitText(s *extv1.JSONSchemaProps, v any) string {
	text, ok := v.(string)
	if !ok {
		return fmt.Sprintf("%s is not a string", encode(v))
	}
	length := int64(utf8.RuneCountInString(text))
	switch {
	case s.MinLength != nil && length < *s.MinLength:
		return fmt.Sprintf("%q is shorter than minLength %d", text, *s.MinLength)
	case s.MaxLength != nil && length > *s.MaxLength:
		return fmt.Sprintf("%q is longer than maxLength %d", text, *s.MaxLength)
	}
	if s.Pattern == "" {
		return ""
	}
	if pattern, err := regexp.Compile(s.Pattern); err == nil && !pattern.MatchString(text) {
		return fmt.Sprintf("%q does not match pattern %q", text, s.Pattern)
	}
	return ""
}

func misfitNumber(s *extv1.JSONSchemaProps, v any) string {
	digits, ok := v.(json.Number)
	if !ok {
		return fmt.Sprintf("%s is not %s", encode(v), inWords(s.Type))
	}
	if s.Type == "integer" {
		if _, err := strconv.ParseInt(digits.String(), 10, 64); err != nil {
			return fmt.Sprintf("%s is not an integer", digits)
		}
	}
	n, err := digits.Float64()
	switch {
	case err != nil:
		return fmt.Sprintf("%s is too large", digits)
	case s.Minimum != nil && n < *s.Minimum:
		return fmt.Sprintf("%s is less than minimum %s", digits, written(*s.Minimum))
	case s.Maximum != nil && n > *s.Maximum:
		return fmt.Sprintf("%s is more than maximum %s", digits, written(*s.Maximum))
	}
	return ""
}

func misfitList(s *extv1.JSONSchemaProps, v any, at object.Path) string {
	items, ok := v.([]any)
	count := int64(len(items))
	switch {
	case !ok:
		return within(at, fmt.Sprintf("%s is not a list", encode(v)))
	case s.MinItems != nil && count < *s.MinItems:
		return within(at, fmt.Sprintf("%d items are fewer than minItems %d", count, *s.MinItems))
	case s.MaxItems != nil && count > *s.MaxItems:
		return within(at, fmt.Sprintf("%d items are more than maxItems %d", count, *s.MaxItems))
	}
	seen := map[string]bool{}
	for i, item := range items {
		if why := misfit(s.Items.Schema, item, at.Index(i)); why != "" {
			return why
		}
		id, told := identity(s, item)
		if told && seen[id] {
			return within(at.Index(i), id+" is there twice")
		}
		seen[id] = true
	}
	return ""
}

// identity is what must be unique about the items of a set or a map.
func identity(s *extv1.JSONSchemaProps, item any) (id string, told bool) {
	switch listType(s) {
	case "set":
		return string(encode(item)), true
	case "map":
		fields, ok := item.(map[string]any)
		keys := map[string]any{}
		for _, key := range s.XListMapKeys {
			keys[key] = fields[key]
			if _, given := fields[key]; !given && s.Items.Schema.Properties[key].Default != nil {
				keys[key] = json.RawMessage(s.Items.Schema.Properties[key].Default.Raw)
			}
		}
		return string(encode(keys)), ok
	}
	return "", false
}

func misfitObject(s *extv1.JSONSchemaProps, v any, at object.Path) string {
	fields, ok := v.(map[string]any)
	if !ok {
		return within(at, fmt.Sprintf("%s is not an object", encode(v)))
	}
	for _, name := range s.Required {
		if _, given := fields[name]; !given {
			return within(at, fmt.Sprintf("the required field %q is missing", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		field, known := s.Properties[name]
		switch {
		case known:
		case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
			field = *s.AdditionalProperties.Schema
		case s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields:
			continue
		default:
			return within(at, fmt.Sprintf("there is no field %q", name))
		}
		if why := misfit(&field, fields[name], at.Field(name)); why != "" {
			return why
		}
	}
	return ""
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Mismatch tells why the API server would refuse the value v, decoded JSON, and where
// inside of it that is; "" when it would not. It says nothing of CEL rules, and quotes
// values.
func Mismatch(s *extv1.JSONSchemaProps, v any) (at object.Path, why string) {
	plain, err := decode(string(encode(v)))
	if err != nil {
		return "", err.Error()
	}
	why = misfit(s, plain, "")
	if place, rest, ok := strings.Cut(why, ": "); ok && !strings.ContainsAny(place, " ") {
		return object.Path(place), rest
	}
	return "", why
}
