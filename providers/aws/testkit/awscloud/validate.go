package awscloud

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// validate checks properties against the schema: names, types, required properties and enums. Patterns
// and conditions across properties are not checked, since AWS's handlers are known to accept more than
// some of them.
func validate(t *resourcetype.Type, properties map[string]any) *apiError {
	if problem := check(t, &t.Schema, properties, "#", 0); problem != "" {
		return &apiError{"ValidationException", "Model validation failed (" + problem + ")"}
	}
	return nil
}

// depthLimit bounds the check of recursive schemas.
const depthLimit = 20

func check(t *resourcetype.Type, s *resourcetype.Schema, v any, at string, depth int) string {
	s = t.Resolve(s)
	if s == nil || depth > depthLimit {
		return ""
	}
	if problem := checkType(s, v, at); problem != "" {
		return problem
	}
	switch v := v.(type) {
	case map[string]any:
		return checkObject(t, s, v, at, depth)
	case []any:
		for i, item := range v {
			if problem := check(t, s.Items, item, fmt.Sprintf("%s/%d", at, i), depth+1); problem != "" {
				return problem
			}
		}
	default:
		return checkEnum(s, v, at)
	}
	return ""
}

func checkObject(t *resourcetype.Type, s *resourcetype.Schema, v map[string]any, at string, depth int) string {
	for _, name := range s.Required {
		if _, ok := v[name]; !ok {
			return fmt.Sprintf("%s: required key [%s] not found", at, name)
		}
	}
	// The properties may be in alternatives; those are not checked.
	closed := at == "#" || s.AdditionalProperties != nil && !s.AdditionalProperties.Allows
	closed = closed && len(s.PatternProperties) == 0 && len(s.Properties) > 0
	for _, name := range slices.Sorted(maps.Keys(v)) {
		property, ok := s.Properties[name]
		if !ok && closed {
			return fmt.Sprintf("%s: extraneous key [%s] is not permitted", at, name)
		}
		if problem := check(t, property, v[name], at+"/"+name, depth+1); problem != "" {
			return problem
		}
	}
	return ""
}

func checkType(s *resourcetype.Schema, v any, at string) string {
	if len(s.Types) == 0 {
		return ""
	}
	found, ok := "", false
	switch v.(type) {
	case map[string]any:
		found, ok = "JSONObject", slices.Contains(s.Types, "object")
	case []any:
		found, ok = "JSONArray", slices.Contains(s.Types, "array")
	case string:
		found, ok = "String", slices.Contains(s.Types, "string")
	case bool:
		found, ok = "Boolean", slices.Contains(s.Types, "boolean")
	case float64:
		found, ok = "Number", slices.Contains(s.Types, "integer") || slices.Contains(s.Types, "number")
	default:
		found = "Null"
	}
	if ok {
		return ""
	}
	return fmt.Sprintf("%s: expected type: %s, found: %s", at, strings.Join(s.Types, " or "), found)
}

func checkEnum(s *resourcetype.Schema, v any, at string) string {
	if len(s.Enum) == 0 {
		return ""
	}
	for _, raw := range s.Enum {
		var allowed any
		if json.Unmarshal(raw, &allowed) == nil && reflect.DeepEqual(allowed, v) {
			return ""
		}
	}
	return fmt.Sprintf("%s: %v is not a valid enum value", at, v)
}

// readOnly returns the first read-only property that a desired state has.
func readOnly(t *resourcetype.Type, properties map[string]any) (string, bool) {
	for _, path := range t.ReadOnlyProperties {
		if len(values(properties, path)) > 0 {
			return "/properties/" + strings.Join(path, "/"), true
		}
	}
	return "", false
}
