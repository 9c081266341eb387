package schema

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/internal/diag"
)

// rule is what a marker means.
type rule struct {
	// on are the types, in OpenAPI's words, that the marker can stand on; none
	// means any.
	on []string
	// repeats says that the marker may be given more than once.
	repeats bool
	apply   func(*draft, marker) *diag.Diagnostic
}

var rules = map[string]rule{
	"required":    {apply: truth(func(d *draft, yes bool) { d.required = yes })},
	"description": {apply: setDescription},
	"default":     {apply: nothingYet},
	"immutable":   {apply: truth(setImmutable)},
	"validation":  {apply: addValidation, repeats: true},

	"minimum": {on: numeric, apply: number(func(s *extv1.JSONSchemaProps) **float64 { return &s.Minimum })},
	"maximum": {on: numeric, apply: number(func(s *extv1.JSONSchemaProps) **float64 { return &s.Maximum })},

	"enum":      {on: []string{"string", "integer"}, apply: setEnum},
	"pattern":   {on: textual, apply: setPattern},
	"minLength": {on: textual, apply: count(func(s *extv1.JSONSchemaProps) **int64 { return &s.MinLength })},
	"maxLength": {on: textual, apply: count(func(s *extv1.JSONSchemaProps) **int64 { return &s.MaxLength })},

	"minItems":    {on: lists, apply: count(func(s *extv1.JSONSchemaProps) **int64 { return &s.MinItems })},
	"maxItems":    {on: lists, apply: count(func(s *extv1.JSONSchemaProps) **int64 { return &s.MaxItems })},
	"uniqueItems": {on: lists, apply: truth(setUnique)},
	"listType":    {on: lists, apply: setListType},
	"listMapKey":  {on: lists, apply: addListMapKey, repeats: true},
}

var (
	textual = []string{"string"}
	numeric = []string{"integer", "number"}
	lists   = []string{"array"}
)

// draft is the schema of a field while its markers are applied.
type draft struct {
	schema   *extv1.JSONSchemaProps
	required bool
	typ      typeExpr
	// given are the markers of this field by name, the first of each.
	given map[string]marker
}

// mark applies markers in the order in which they were written. The default
// comes last, since it must fit all the others.
func (d *draft) mark(markers []marker) diag.List {
	var faults diag.List
	for _, m := range markers {
		if fault := d.accept(m); fault != nil {
			faults.Add(*fault)
		}
	}
	faults.Add(d.incoherent()...)
	if m, ok := d.given["default"]; ok && d.schema.Type != "" {
		if fault := setDefault(d, m); fault != nil {
			faults.Add(*fault)
		}
	} else if fault := d.inheritedMisfit(); fault != nil {
		faults.Add(*fault)
	}
	return faults
}

func (d *draft) accept(m marker) *diag.Diagnostic {
	r, known := rules[m.name]
	if !known {
		return &diag.Diagnostic{
			Offset: m.at, Problem: fmt.Sprintf("there is no marker %q", m.name), Nearest: nearestMarker(m.name),
		}
	}
	if first, again := d.given[m.name]; again && !r.repeats {
		if first.value == m.value {
			return nil
		}
		return &diag.Diagnostic{Offset: m.at, Problem: fmt.Sprintf("marker %q is given twice, with different values", m.name)}
	}
	if d.schema.Type == "" {
		// The type wasn't understood, so nothing can be said of what suits it.
		return nil
	}
	if len(r.on) > 0 && !slices.Contains(r.on, d.schema.Type) {
		return &diag.Diagnostic{
			Offset:   m.at,
			Problem:  fmt.Sprintf("marker %q does not apply to %s", m.name, inWords(d.schema.Type)),
			Expected: "it on " + allInWords(r.on),
		}
	}
	if _, again := d.given[m.name]; !again {
		d.given[m.name] = m
	}
	return r.apply(d, m)
}

func nearestMarker(name string) string {
	return diag.Nearest(name, slices.Collect(maps.Keys(rules)))
}

// inWords names an OpenAPI type as the dialect's authors would.
func inWords(openapi string) string {
	words := map[string]string{
		"string": "a string", "integer": "an integer", "number": "a float",
		"boolean": "a boolean", "array": "a list", "object": "an object or a map",
	}
	return words[openapi]
}

func allInWords(openapi []string) string {
	words := make([]string, len(openapi))
	for i, t := range openapi {
		words[i] = inWords(t)
	}
	return strings.Join(words, " or ")
}

func wrong(m marker, expected string) *diag.Diagnostic {
	return &diag.Diagnostic{
		Offset: m.valueAt, Problem: fmt.Sprintf("%q is not a value of marker %q", m.value, m.name), Expected: expected,
	}
}

func truth(set func(*draft, bool)) func(*draft, marker) *diag.Diagnostic {
	return func(d *draft, m marker) *diag.Diagnostic {
		yes, err := strconv.ParseBool(m.value)
		if err != nil {
			return wrong(m, "true or false")
		}
		set(d, yes)
		return nil
	}
}

func number(of func(*extv1.JSONSchemaProps) **float64) func(*draft, marker) *diag.Diagnostic {
	return func(d *draft, m marker) *diag.Diagnostic {
		n, err := strconv.ParseFloat(m.value, 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			return wrong(m, "a number")
		}
		*of(d.schema) = &n
		return nil
	}
}

func count(of func(*extv1.JSONSchemaProps) **int64) func(*draft, marker) *diag.Diagnostic {
	return func(d *draft, m marker) *diag.Diagnostic {
		n, err := strconv.ParseInt(m.value, 10, 64)
		if err != nil || n < 0 {
			return wrong(m, "a whole number, zero or more")
		}
		*of(d.schema) = &n
		return nil
	}
}

func nothingYet(*draft, marker) *diag.Diagnostic { return nil }

func setDescription(d *draft, m marker) *diag.Diagnostic {
	d.schema.Description = m.value
	return nil
}

// isImmutable is the rule behind the marker of that name. The API server runs
// it only where there is an old value: a field may still be set later.
const isImmutable = "self == oldSelf"

func setImmutable(d *draft, yes bool) {
	has := func(r extv1.ValidationRule) bool { return r.Rule == isImmutable }
	if yes && !slices.ContainsFunc(d.schema.XValidations, has) {
		d.schema.XValidations = append(d.schema.XValidations, extv1.ValidationRule{Rule: isImmutable, Message: "field is immutable"})
	}
}

// addValidation adds a CEL rule; that it compiles is for those to say who know the types.
// The message is the dialect's. The API server names the field before it, and not the rule.
func addValidation(d *draft, m marker) *diag.Diagnostic {
	if strings.TrimSpace(m.value) == "" {
		return wrong(m, "a CEL expression")
	}
	d.schema.XValidations = append(d.schema.XValidations, extv1.ValidationRule{Rule: m.value, Message: "validation failed"})
	return nil
}

func setPattern(d *draft, m marker) *diag.Diagnostic {
	if m.value == "" {
		return wrong(m, "a regular expression")
	}
	if _, err := regexp.Compile(m.value); err != nil {
		return &diag.Diagnostic{
			Offset: m.valueAt, Problem: strings.TrimPrefix(err.Error(), "error parsing regexp: "), Expected: "a regular expression of RE2",
		}
	}
	d.schema.Pattern = m.value
	return nil
}

func setEnum(d *draft, m marker) *diag.Diagnostic {
	var values []extv1.JSON
	for word := range strings.SplitSeq(m.value, ",") {
		word = strings.TrimSpace(word)
		if word == "" {
			return wrong(m, "values separated by commas, none of them empty")
		}
		v := extv1.JSON{Raw: encode(word)}
		if d.schema.Type == "integer" {
			n, err := strconv.ParseInt(word, 10, 64)
			if err != nil {
				return &diag.Diagnostic{Offset: m.valueAt, Problem: fmt.Sprintf("%q is not an integer", word), Expected: "integers separated by commas"}
			}
			v.Raw = strconv.AppendInt(nil, n, 10)
		}
		if !slices.ContainsFunc(values, func(o extv1.JSON) bool { return string(o.Raw) == string(v.Raw) }) {
			values = append(values, v)
		}
	}
	d.schema.Enum = values
	return nil
}

// setUnique makes a list a set, which is how a schema can ask for unique items.
// Another list type beside it is told as a contradiction.
func setUnique(d *draft, yes bool) {
	if _, typed := d.given["listType"]; yes && !typed {
		set := "set"
		d.schema.XListType = &set
	}
}

func setListType(d *draft, m marker) *diag.Diagnostic {
	if !slices.Contains([]string{"atomic", "set", "map"}, m.value) {
		fault := wrong(m, "atomic, set or map")
		fault.Nearest = diag.Nearest(m.value, []string{"atomic", "set", "map"})
		return fault
	}
	if u, ok := d.given["uniqueItems"]; ok && isTrue(u.value) && m.value != "set" {
		return contradiction(m)
	}
	d.schema.XListType = &m.value
	return nil
}

func contradiction(m marker) *diag.Diagnostic {
	return &diag.Diagnostic{Offset: m.at, Problem: `markers "listType" and "uniqueItems" contradict one another`, Expected: "listType=set"}
}

func isTrue(s string) bool {
	yes, err := strconv.ParseBool(s)
	return err == nil && yes
}

func addListMapKey(d *draft, m marker) *diag.Diagnostic {
	if m.value == "" {
		return wrong(m, "the name of a field of the items")
	}
	if !slices.Contains(d.schema.XListMapKeys, m.value) {
		d.schema.XListMapKeys = append(d.schema.XListMapKeys, m.value)
	}
	return nil
}
