package model

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// Shape returns what a read returned in the types of the schema: without null, and with a number where AWS
// answers a string for one. Unknown properties are left out.
func Shape(t *resourcetype.Type, read map[string]any) map[string]any {
	out, _ := shape(t, &t.Schema, read).(map[string]any)
	return out
}

func shape(t *resourcetype.Type, s *resourcetype.Schema, value any) any {
	s = t.Resolve(s)
	switch v := value.(type) {
	case map[string]any:
		known := fields(t, s)
		out := make(map[string]any, len(v))
		for key, item := range v {
			field, isKnown := known[key]
			if !isKnown && len(known) > 0 && !isMap(t, s) {
				continue
			}
			if !isKnown {
				field = valueOf(t, s, key)
			}
			if item = shape(t, field, item); item != nil {
				out[key] = item
			}
		}
		return out
	case []any:
		items := itemOf(t, s)
		out := make([]any, 0, len(v))
		for _, item := range v {
			if item = shape(t, items, item); item != nil {
				out = append(out, item)
			}
		}
		return out
	}
	return scalar(t, s, value)
}

// A scalar stays as it is if it has no form in these types.
func scalar(t *resourcetype.Type, s *resourcetype.Schema, value any) any {
	s = t.Resolve(s)
	if s == nil || len(s.Types) != 1 || value == nil {
		return value
	}
	as, ok := text(value)
	if !ok {
		return value
	}
	switch s.Types[0] {
	case "string":
		return as
	case "boolean":
		if b, err := strconv.ParseBool(strings.ToLower(as)); err == nil {
			return b
		}
	case "integer", "number":
		if n, err := strconv.ParseInt(as, 10, 64); err == nil {
			return n
		}
		if f, err := strconv.ParseFloat(as, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
			return f
		}
	}
	return value
}

// Chosen returns the values that AWS has chosen for properties that are unset in spec.forProvider and that a
// user can set: not those that reads don't return, tags, what excludes a property that is set, and what the schema
// would not accept.
func Chosen(t *resourcetype.Type, forProvider, read map[string]any) map[string]any {
	skip := newPaths(t.ReadOnlyProperties, t.WriteOnlyProperties, t.IgnoredProperties, t.DeprecatedProperties)
	out := chosen(t, &t.Schema, forProvider, Shape(t, read), skip)
	if len(t.Tagging.TagProperty) == 1 {
		delete(out, t.Tagging.TagProperty[0])
	}
	return out
}

func chosen(t *resourcetype.Type, s *resourcetype.Schema, wanted, read map[string]any, skip *paths) map[string]any {
	out := map[string]any{}
	known := fields(t, s)
	for key, value := range read {
		field, below := known[key], skip.field(key)
		if field == nil || isBlank(value) || below.isIn() || hasSibling(wanted, key) {
			continue
		}
		has, isSet := wanted[key]
		object, isObject := value.(map[string]any)
		within, wasObject := has.(map[string]any)
		switch {
		case isSet && !(isObject && wasObject && len(fields(t, field)) > 0):
		case isObject && len(fields(t, field)) > 0:
			if inner := chosen(t, field, within, object, below); len(inner) > 0 && (isSet || fits(t, field, inner)) {
				out[key] = inner
			}
		case below.isEmpty() && fits(t, field, value):
			out[key] = value
		}
	}
	dropExcluded(t, s, wanted, out)
	return out
}

func hasSibling(object map[string]any, name string) bool {
	for _, suffix := range []string{secretSuffix, refSuffix, refsSuffix, selectorSuffix, selectorsSuffix} {
		if object[name+suffix] != nil {
			return true
		}
	}
	return false
}

// The schema accepts a value as far as the API server checks it.
func fits(t *resourcetype.Type, s *resourcetype.Schema, value any) bool {
	if s = t.Resolve(s); s == nil {
		return true
	}
	switch v := value.(type) {
	case map[string]any:
		if len(s.Types) > 0 && !hasType(s, "object") || slices.ContainsFunc(s.Required, func(name string) bool { return v[name] == nil }) || excludes(t, s, v) {
			return false
		}
		known := fields(t, s)
		for key, item := range v {
			field, isKnown := known[key]
			if !isKnown {
				field = valueOf(t, s, key)
			}
			if !fits(t, field, item) {
				return false
			}
		}
		return true
	case []any:
		items := itemOf(t, s)
		if len(s.Types) > 0 && !hasType(s, "array") || outside(float64(len(v)), s.MinItems, s.MaxItems) {
			return false
		}
		return !slices.ContainsFunc(v, func(item any) bool { return !fits(t, items, item) })
	}
	return fitsScalar(s, value)
}

func fitsScalar(s *resourcetype.Schema, value any) bool {
	if len(s.Enum) > 0 && !contains(s.Enum, value) {
		return false
	}
	switch v := value.(type) {
	case string:
		if len(s.Types) > 0 && !hasType(s, "string") || outside(float64(utf8.RuneCountInString(v)), s.MinLength, s.MaxLength) {
			return false
		}
		re, err := regexp.Compile(s.Pattern)
		return s.Pattern == "" || err != nil || re.MatchString(v)
	case bool:
		return len(s.Types) == 0 || hasType(s, "boolean")
	case int64:
		return (len(s.Types) == 0 || hasType(s, "integer") || hasType(s, "number")) && fitsNumber(s, float64(v))
	case float64:
		return (len(s.Types) == 0 || hasType(s, "number")) && fitsNumber(s, v)
	}
	return true
}

func fitsNumber(s *resourcetype.Schema, value float64) bool {
	if s.Minimum != nil {
		if limit, err := s.Minimum.Float64(); err == nil && value < limit {
			return false
		}
	}
	if s.Maximum != nil {
		if limit, err := s.Maximum.Float64(); err == nil && value > limit {
			return false
		}
	}
	return true
}

func outside(n float64, least, most *int64) bool {
	return least != nil && n < float64(*least) || most != nil && n > float64(*most)
}
