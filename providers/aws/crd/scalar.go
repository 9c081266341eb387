package crd

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// formats are the formats that Kubernetes checks as the schemas mean them.
var formats = []string{"date-time", "int32", "int64", "float", "double", "uri", "ipv4", "ipv6", "email", "password"}

// ownFormats are formats that say what a string names, or how a document is written. They check nothing.
var ownFormats = []string{"AWS::", "json", "string"}

func (c *converter) scalar(out *apiextensionsv1.JSONSchemaProps, s merged, path resourcetype.Path) {
	for _, each := range s.main {
		c.constrain(out, each, path)
	}
	for _, g := range s.groups {
		var alternatives []apiextensionsv1.JSONSchemaProps
		for _, each := range g.schemas {
			alternative := apiextensionsv1.JSONSchemaProps{Type: out.Type}
			c.constrain(&alternative, each, path)
			alternative.Type = ""
			if alternative.Format != "" || isEmpty(alternative) {
				// This alternative allows any value.
				alternatives = nil
				break
			}
			alternatives = append(alternatives, alternative)
		}
		if len(alternatives) > 0 {
			out.AllOf = append(out.AllOf, apiextensionsv1.JSONSchemaProps{AnyOf: alternatives})
		}
	}
	if len(out.AllOf) == 1 && out.AnyOf == nil {
		out.AnyOf, out.AllOf = out.AllOf[0].AnyOf, nil
	}
}

func isEmpty(s apiextensionsv1.JSONSchemaProps) bool {
	return s.Pattern == "" && len(s.Enum) == 0 && s.MinLength == nil && s.MaxLength == nil && s.Minimum == nil && s.Maximum == nil &&
		s.MultipleOf == nil
}

// Later constraints replace earlier ones.
func (c *converter) constrain(out *apiextensionsv1.JSONSchemaProps, s *resourcetype.Schema, path resourcetype.Path) {
	c.enumerate(out, s, path)
	switch out.Type {
	case "string":
		c.constrainString(out, s, path)
	case "integer", "number":
		for _, bound := range []struct {
			from *json.Number
			to   **float64
		}{{s.Minimum, &out.Minimum}, {s.Maximum, &out.Maximum}, {s.MultipleOf, &out.MultipleOf}} {
			if bound.from != nil {
				if value, err := bound.from.Float64(); err == nil {
					*bound.to = &value
				}
			}
		}
		if slices.Contains([]string{"int32", "int64", "float", "double"}, s.Format) {
			out.Format = s.Format
		}
	}
}

func (c *converter) constrainString(out *apiextensionsv1.JSONSchemaProps, s *resourcetype.Schema, path resourcetype.Path) {
	if s.MinLength != nil && *s.MinLength > 0 {
		out.MinLength = s.MinLength
	}
	out.MaxLength = cmp.Or(upTo(s.MaxLength), out.MaxLength)
	switch {
	case s.Format == "":
	case slices.Contains(formats, s.Format):
		out.Format = s.Format
	case !slices.ContainsFunc(ownFormats, func(own string) bool { return strings.HasPrefix(s.Format, own) }):
		c.lose(path, Format)
	}
	if s.Pattern == "" {
		return
	}
	pattern, exact := patternOf(s.Pattern)
	switch {
	case pattern == "":
		c.lose(path, Pattern)
	case !exact:
		c.lose(path, PatternCount)
	}
	if pattern != "" {
		out.Pattern = pattern
	}
}

// maxLimit is the largest limit of a length that is kept. No object can be so large, and the API server estimates
// the cost of rules from limits.
const maxLimit = 1 << 20

func upTo(limit *int64) *int64 {
	if limit != nil && *limit > maxLimit {
		return nil
	}
	return limit
}

func (c *converter) enumerate(out *apiextensionsv1.JSONSchemaProps, s *resourcetype.Schema, path resourcetype.Path) {
	values := s.Enum
	if s.Const != nil {
		values = append(slices.Clip(values), s.Const)
	}
	var kept []apiextensionsv1.JSON
	var seen []string
	for _, value := range values {
		if hasType(value, out.Type) {
			if !slices.Contains(seen, string(value)) {
				seen = append(seen, string(value))
				kept = append(kept, apiextensionsv1.JSON{Raw: slices.Clone(value)})
			}
		} else {
			c.lose(path, Enum)
		}
	}
	if len(kept) > 0 && len(kept) >= len(seen) {
		out.Enum = kept
	}
	if len(s.EnumCaseInsensitive) > 0 && out.Type == "string" && s.Pattern == "" {
		var words []string
		for _, value := range s.EnumCaseInsensitive {
			var word string
			if json.Unmarshal(value, &word) == nil {
				words = append(words, regexp.QuoteMeta(word))
			}
		}
		out.Pattern = "^(?i:" + strings.Join(words, "|") + ")$"
	}
}

func hasType(value json.RawMessage, name string) bool {
	var v any
	if json.Unmarshal(value, &v) != nil {
		return false
	}
	switch v := v.(type) {
	case string:
		return name == "string"
	case bool:
		return name == "boolean"
	case float64:
		return name == "number" || name == "integer" && v == float64(int64(v))
	}
	return false
}
