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

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// validate says why the API server would refuse the value v, with numbers as json.Number;
// "" if it would accept it. It does not evaluate CEL rules.
func validate(s *extv1.JSONSchemaProps, v any, at object.Path) string {
	why := ""
	switch s.Type {
	case "":
		return ""
	case "string":
		why = validateString(s, v)
	case "boolean":
		if _, ok := v.(bool); !ok {
			why = fmt.Sprintf("%s is not a boolean", encode(v))
		}
	case "integer", "number":
		why = validateNumber(s, v)
	case "array":
		return validateList(s, v, at)
	case "object":
		return validateObject(s, v, at)
	}
	if why == "" && len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, func(e extv1.JSON) bool { return equalJSON(e.Raw, v) }) {
		why = fmt.Sprintf("%s is not one of %s", encode(v), joinJSON(s.Enum))
	}
	return prefixPath(at, why)
}

func prefixPath(at object.Path, why string) string {
	if why == "" || at == "" {
		return why
	}
	return string(at) + ": " + why
}

func equalJSON(raw []byte, v any) bool {
	e, err := decode(string(raw))
	return err == nil && string(encode(e)) == string(encode(v))
}

func joinJSON(values []extv1.JSON) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = string(v.Raw)
	}
	return strings.Join(words, ", ")
}

func validateString(s *extv1.JSONSchemaProps, v any) string {
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

func validateNumber(s *extv1.JSONSchemaProps, v any) string {
	digits, ok := v.(json.Number)
	if !ok {
		return fmt.Sprintf("%s is not %s", encode(v), Noun(s.Type))
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
		return fmt.Sprintf("%s is less than minimum %s", digits, formatNumber(*s.Minimum))
	case s.Maximum != nil && n > *s.Maximum:
		return fmt.Sprintf("%s is more than maximum %s", digits, formatNumber(*s.Maximum))
	}
	return ""
}

func validateList(s *extv1.JSONSchemaProps, v any, at object.Path) string {
	items, ok := v.([]any)
	count := int64(len(items))
	switch {
	case !ok:
		return prefixPath(at, fmt.Sprintf("%s is not a list", encode(v)))
	case s.MinItems != nil && count < *s.MinItems:
		return prefixPath(at, fmt.Sprintf("%s fewer than minItems %d", diag.Counted(len(items), "item is", "items are"), *s.MinItems))
	case s.MaxItems != nil && count > *s.MaxItems:
		return prefixPath(at, fmt.Sprintf("%s more than maxItems %d", diag.Counted(len(items), "item is", "items are"), *s.MaxItems))
	}
	seen := map[string]bool{}
	for i, item := range items {
		if why := validate(s.Items.Schema, item, at.Index(i)); why != "" {
			return why
		}
		id, unique := itemIdentity(s, item)
		if unique && seen[id] {
			return prefixPath(at.Index(i), id+" occurs twice")
		}
		seen[id] = true
	}
	return ""
}

// itemIdentity returns what must be unique among the items of a set or a map; unique is
// false for other lists.
func itemIdentity(s *extv1.JSONSchemaProps, item any) (id string, unique bool) {
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

func validateObject(s *extv1.JSONSchemaProps, v any, at object.Path) string {
	fields, ok := v.(map[string]any)
	if !ok {
		return prefixPath(at, fmt.Sprintf("%s is not an object", encode(v)))
	}
	for _, name := range s.Required {
		if _, given := fields[name]; !given {
			return prefixPath(at, fmt.Sprintf("the required field %q is missing", name))
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
			return prefixPath(at, fmt.Sprintf("there is no field %q", name))
		}
		if why := validate(&field, fields[name], at.Field(name)); why != "" {
			return why
		}
	}
	return ""
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// ValidateValue says why the API server would refuse the decoded JSON value v, and at which
// path inside it; why is "" if it would accept it. It does not evaluate CEL rules. The text
// quotes values.
func ValidateValue(s *extv1.JSONSchemaProps, v any) (at object.Path, why string) {
	plain, err := decode(string(encode(v)))
	if err != nil {
		return "", err.Error()
	}
	why = validate(s, plain, "")
	if place, rest, ok := strings.Cut(why, ": "); ok && !strings.ContainsAny(place, " ") {
		return object.Path(place), rest
	}
	return "", why
}
