package patchandtransform

import (
	"maps"
	"slices"

	"github.com/espalier-dev/espalier/internal/object"
)

func (c validator) transform(at object.Path, t *transform) {
	oneOf(c, at.Field("type"), t.Type, "map", "match", "math", "string", "convert")
	missing := map[string]bool{
		"math": t.Math == nil, "map": t.Map == nil, "match": t.Match == nil,
		"string": t.String == nil, "convert": t.Convert == nil,
	}
	if missing[t.Type] {
		c.problems.Addf(at.Field(t.Type), "is not set")
		return
	}
	switch t.Type {
	case "math":
		c.math(at.Field("math"), t.Math)
	case "map":
		if len(t.Map) == 0 {
			c.problems.Addf(at.Field("map"), "is empty")
		}
	case "match":
		c.match(at.Field("match"), t.Match)
	case "string":
		c.text(at.Field("string"), t.String)
	case "convert":
		oneOf(c, at.Field("convert", "toType"), t.Convert.ToType, "string", "bool", "int", "int64", "float64", "object", "array")
		oneOf(c, at.Field("convert", "format"), t.Convert.format(), "none", "quantity", "json")
	}
}

func (c validator) math(at object.Path, m *math) {
	values := map[string]*int64{"Multiply": m.Multiply, "ClampMin": m.ClampMin, "ClampMax": m.ClampMax}
	fields := map[string]string{"Multiply": "multiply", "ClampMin": "clampMin", "ClampMax": "clampMax"}
	oneOf(c, at.Field("type"), m.Type, slices.Sorted(maps.Keys(values))...)
	if value, known := values[m.Type]; known && value == nil {
		c.problems.Addf(at.Field(fields[m.Type]), "is not set")
	}
}

func (c validator) match(at object.Path, m *match) {
	if len(m.Patterns) == 0 {
		c.problems.Addf(at.Field("patterns"), "must not be empty")
	}
	for i, p := range m.Patterns {
		at := at.Field("patterns").Index(i)
		switch p.Type {
		case "literal", "":
			if p.Literal == nil {
				c.problems.Addf(at.Field("literal"), "is not set")
			}
		case "regexp":
			if p.Regexp == nil {
				c.problems.Addf(at.Field("regexp"), "is not set")
			} else {
				c.regexp(at.Field("regexp"), *p.Regexp)
			}
		default:
			oneOf(c, at.Field("type"), p.Type, "literal", "regexp")
		}
	}
	if m.FallbackTo != "" {
		oneOf(c, at.Field("fallbackTo"), m.FallbackTo, "Value", "Input")
	}
}

func (c validator) text(at object.Path, s *stringTransform) {
	missing := map[string]bool{
		"Format": s.Format == nil, "Convert": s.Convert == nil, "TrimPrefix": s.Trim == nil, "TrimSuffix": s.Trim == nil,
		"Regexp": s.Regexp == nil, "Join": s.Join == nil, "Replace": s.Replace == nil,
	}
	fields := map[string]string{
		"Format": "fmt", "Convert": "convert", "TrimPrefix": "trim", "TrimSuffix": "trim",
		"Regexp": "regexp", "Join": "join", "Replace": "replace",
	}
	oneOf(c, at.Field("type"), s.Type, slices.Sorted(maps.Keys(missing))...)
	if missing[s.Type] {
		c.problems.Addf(at.Field(fields[s.Type]), "is not set")
		return
	}
	switch s.Type {
	case "Format":
		c.format(at.Field("fmt"), *s.Format)
	case "Convert":
		oneOf(c, at.Field("convert"), *s.Convert, "ToUpper", "ToLower", "ToJson", "ToBase64", "FromBase64",
			"ToSha1", "ToSha256", "ToSha512", "ToAdler32")
	case "Regexp":
		c.required(at.Field("regexp", "match"), s.Regexp.Match)
		c.regexp(at.Field("regexp", "match"), s.Regexp.Match)
		if s.Regexp.Group < 0 {
			c.problems.Addf(at.Field("regexp", "group"), "is negative")
		}
	}
}

func (c validator) regexp(at object.Path, text string) {
	if _, err := compile(text); err != nil {
		c.problems.Addf(at, "%v", err)
	}
}

func (c validator) detail(at object.Path, d *connectionDetail) {
	c.required(at.Field("name"), d.Name)
	oneOf(c, at.Field("type"), d.Type, "FromConnectionSecretKey", "FromFieldPath", "FromValue")
	switch {
	case d.Type == "FromConnectionSecretKey" && d.FromConnectionSecretKey == nil:
		c.problems.Addf(at.Field("fromConnectionSecretKey"), "is not set")
	case d.Type == "FromFieldPath" && d.FromFieldPath == nil:
		c.problems.Addf(at.Field("fromFieldPath"), "is not set")
	case d.Type == "FromFieldPath":
		c.path(at.Field("fromFieldPath"), *d.FromFieldPath)
	case d.Type == "FromValue" && d.Value == nil:
		c.problems.Addf(at.Field("value"), "is not set")
	}
}

func (c validator) readiness(at object.Path, r *readinessCheck) {
	oneOf(c, at.Field("type"), r.Type, "NonEmpty", "MatchString", "MatchInteger", "MatchTrue", "MatchFalse", "MatchCondition", "None")
	switch {
	case r.Type == "None":
		return
	case r.Type == "MatchCondition" && r.MatchCondition == nil:
		c.problems.Addf(at.Field("matchCondition"), "is not set")
		return
	case r.Type == "MatchCondition":
		c.required(at.Field("matchCondition", "type"), r.MatchCondition.Type)
		c.required(at.Field("matchCondition", "status"), r.MatchCondition.Status)
		return
	case r.Type == "MatchString" && r.MatchString == nil:
		c.problems.Addf(at.Field("matchString"), "is not set")
	case r.Type == "MatchInteger" && r.MatchInteger == nil:
		c.problems.Addf(at.Field("matchInteger"), "is not set")
	}
	if r.FieldPath == nil || *r.FieldPath == "" {
		c.problems.Addf(at.Field("fieldPath"), "is not set")
		return
	}
	c.path(at.Field("fieldPath"), *r.FieldPath)
}
