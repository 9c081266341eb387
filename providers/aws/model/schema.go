package model

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// maxBranches bounds how deep alternatives of a schema are followed; schemas may be recursive.
const maxBranches = 8

func fields(t *resourcetype.Type, s *resourcetype.Schema) map[string]*resourcetype.Schema {
	out := map[string]*resourcetype.Schema{}
	addFields(t, s, out, maxBranches)
	return out
}

func addFields(t *resourcetype.Type, s *resourcetype.Schema, out map[string]*resourcetype.Schema, depth int) {
	if s = t.Resolve(s); s == nil || depth == 0 {
		return
	}
	for name, field := range s.Properties {
		if known := out[name]; known == nil || isBare(known) {
			out[name] = field
		}
	}
	for _, branches := range [][]*resourcetype.Schema{s.AllOf, s.AnyOf, s.OneOf} {
		for _, branch := range branches {
			addFields(t, branch, out, depth-1)
		}
	}
}

// The schema only names a property, as alternatives that require it do.
func isBare(s *resourcetype.Schema) bool {
	return s == nil || s.Ref == "" && len(s.Types) == 0 && len(s.Properties) == 0 && s.Items == nil && len(s.OneOf)+len(s.AnyOf)+len(s.AllOf) == 0
}

// It is nil if there is none.
func valueOf(t *resourcetype.Type, s *resourcetype.Schema, key string) *resourcetype.Schema {
	if s = t.Resolve(s); s == nil {
		return nil
	}
	for _, pattern := range slices.Sorted(maps.Keys(s.PatternProperties)) {
		if re, err := regexp.Compile(pattern); err != nil || re.MatchString(key) {
			return s.PatternProperties[pattern]
		}
	}
	if s.AdditionalProperties != nil {
		return s.AdditionalProperties.Schema
	}
	return nil
}

// isFree reports whether a schema says nothing about an object's keys: it is a map or a JSON document.
func isFree(t *resourcetype.Type, s *resourcetype.Schema) bool { return len(fields(t, s)) == 0 }

// isMap reports whether an object's keys are the user's, with values of one schema.
func isMap(t *resourcetype.Type, s *resourcetype.Schema) bool {
	s = t.Resolve(s)
	return s != nil && (len(s.PatternProperties) > 0 || s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil)
}

// It is nil if nothing is known of the field.
func fieldOf(t *resourcetype.Type, s *resourcetype.Schema, name string) *resourcetype.Schema {
	if field := fields(t, s)[name]; field != nil {
		return field
	}
	return valueOf(t, s, name)
}

// It is nil if nothing is known of the items.
func itemOf(t *resourcetype.Type, s *resourcetype.Schema) *resourcetype.Schema {
	return arrayOf(t, s, maxBranches).Items
}

// The array may be one of several alternatives.
func arrayOf(t *resourcetype.Type, s *resourcetype.Schema, depth int) *resourcetype.Schema {
	s = t.Resolve(s)
	switch {
	case s == nil || depth == 0:
		return &resourcetype.Schema{}
	case s.Items != nil:
		return s
	}
	for _, branch := range slices.Concat(s.AllOf, s.AnyOf, s.OneOf) {
		if found := arrayOf(t, branch, depth-1); found.Items != nil {
			return found
		}
	}
	return s
}

// A schema without a type says nothing.
func hasType(s *resourcetype.Schema, name string) bool {
	return s != nil && slices.Contains(s.Types, name)
}

// The document may have any form, in a string or as an object, such as a policy.
func isDocument(t *resourcetype.Type, s *resourcetype.Schema) bool {
	s = t.Resolve(s)
	return hasType(s, "object") && (hasType(s, "string") || isFree(t, s) && !isMap(t, s))
}

func contains(all []json.RawMessage, value any) bool {
	return slices.ContainsFunc(all, func(raw json.RawMessage) bool {
		known, err := decode(raw)
		return err == nil && sameScalar(known, value)
	})
}
