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

type markerRule struct {
	// types are the OpenAPI types that the marker applies to; none means any.
	types []string
	// lenient says that the marker is accepted on other types, where it has no effect: the dialect accepts it.
	lenient    bool
	repeatable bool
	apply      func(*draft, marker) *diag.Diagnostic
}

var markerRules = map[string]markerRule{
	"required":    {apply: boolMarker(func(d *draft, yes bool) { d.required = yes })},
	"description": {apply: setDescription},
	"default":     {apply: deferred},
	"immutable":   {apply: boolMarker(setImmutable)},
	"validation":  {apply: addValidation, repeatable: true},
	"message":     {apply: setMessage, repeatable: true},

	"minimum": {types: numberTypes, lenient: true, apply: numberMarker(func(s *extv1.JSONSchemaProps) **float64 { return &s.Minimum })},
	"maximum": {types: numberTypes, lenient: true, apply: numberMarker(func(s *extv1.JSONSchemaProps) **float64 { return &s.Maximum })},

	"scale": {types: integerTypes, apply: boolMarker(func(d *draft, yes bool) { d.scaled = yes })},

	"enum":      {types: []string{"string", "integer"}, apply: setEnum},
	"pattern":   {types: stringTypes, apply: setPattern},
	"minLength": {types: stringTypes, apply: countMarker(func(s *extv1.JSONSchemaProps) **int64 { return &s.MinLength })},
	"maxLength": {types: stringTypes, apply: countMarker(func(s *extv1.JSONSchemaProps) **int64 { return &s.MaxLength })},

	"minItems":    {types: listTypes, apply: countMarker(func(s *extv1.JSONSchemaProps) **int64 { return &s.MinItems })},
	"maxItems":    {types: listTypes, apply: countMarker(func(s *extv1.JSONSchemaProps) **int64 { return &s.MaxItems })},
	"uniqueItems": {types: listTypes, apply: boolMarker(setUnique)},
	"listType":    {types: listTypes, apply: setListType},
	"listMapKey":  {types: listTypes, apply: addListMapKey, repeatable: true},
}

var (
	stringTypes  = []string{"string"}
	integerTypes = []string{"integer"}
	numberTypes  = []string{"integer", "number"}
	listTypes    = []string{"array"}
)

type draft struct {
	schema   *extv1.JSONSchemaProps
	required bool
	scaled   bool
	typ      typeExpr
	// given has the first marker of each name of this field.
	given map[string]marker
	// ignored are the markers without an effect.
	ignored diag.List
}

// applyMarkers applies markers in the order in which they are written. The default comes last, because it must
// satisfy all the others.
func (d *draft) applyMarkers(markers []marker) diag.List {
	var faults diag.List
	for _, m := range markers {
		if fault := d.applyMarker(m); fault != nil {
			faults.Add(*fault)
		}
	}
	d.describeRules()
	faults.Add(d.conflictingMarkers()...)
	if m, ok := d.given["default"]; ok && d.schema.Type != "" {
		if fault := setDefault(d, m); fault != nil {
			faults.Add(*fault)
		}
	} else if fault := d.inheritedDefaultProblem(); fault != nil {
		faults.Add(*fault)
	}
	completeDefault(d.schema)
	return faults
}

func (d *draft) applyMarker(m marker) *diag.Diagnostic {
	r, known := markerRules[m.name]
	if !known {
		return &diag.Diagnostic{
			Offset: m.at, Problem: fmt.Sprintf("there is no marker %q", m.name), Nearest: nearestMarker(m.name),
		}
	}
	if first, exists := d.given[m.name]; exists && !r.repeatable {
		if first.value == m.value {
			return nil
		}
		return &diag.Diagnostic{Offset: m.at, Problem: fmt.Sprintf("marker %q is given twice, with different values", m.name)}
	}
	if d.schema.Type == "" {
		// The type is invalid, so which markers apply is unknown.
		return nil
	}
	if len(r.types) > 0 && !slices.Contains(r.types, d.schema.Type) {
		mistyped := &diag.Diagnostic{
			Offset:   m.at,
			Problem:  fmt.Sprintf("marker %q does not apply to %s", m.name, Noun(d.schema.Type)),
			Expected: typeNouns(r.types),
		}
		if !r.lenient {
			return mistyped
		}
		fault := r.apply(&draft{schema: &extv1.JSONSchemaProps{}}, m)
		if fault == nil {
			d.ignored.Add(*mistyped)
		}
		return fault
	}
	if _, exists := d.given[m.name]; !exists {
		d.given[m.name] = m
	}
	return r.apply(d, m)
}

func nearestMarker(name string) string {
	return diag.Nearest(name, slices.Collect(maps.Keys(markerRules)))
}

// Noun names an OpenAPI type in the words of SimpleSchema, with its article, such as "an integer".
func Noun(openapi string) string {
	words := map[string]string{
		"string": "a string", "integer": "an integer", "number": "a float",
		"boolean": "a boolean", "array": "a list", "object": "an object or a map",
	}
	return words[openapi]
}

func typeNouns(openapi []string) string {
	words := make([]string, len(openapi))
	for i, t := range openapi {
		words[i] = Noun(t)
	}
	return strings.Join(words, " or ")
}

func invalidValue(m marker, expected string) *diag.Diagnostic {
	return &diag.Diagnostic{
		Offset: m.valueAt, Problem: fmt.Sprintf("%q is not a value of marker %q", m.value, m.name), Expected: expected,
	}
}

func boolMarker(set func(*draft, bool)) func(*draft, marker) *diag.Diagnostic {
	return func(d *draft, m marker) *diag.Diagnostic {
		yes, err := strconv.ParseBool(m.value)
		if err != nil {
			return invalidValue(m, "true or false")
		}
		set(d, yes)
		return nil
	}
}

func numberMarker(of func(*extv1.JSONSchemaProps) **float64) func(*draft, marker) *diag.Diagnostic {
	return func(d *draft, m marker) *diag.Diagnostic {
		n, err := strconv.ParseFloat(m.value, 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			return invalidValue(m, "a number")
		}
		*of(d.schema) = &n
		return nil
	}
}

func countMarker(of func(*extv1.JSONSchemaProps) **int64) func(*draft, marker) *diag.Diagnostic {
	return func(d *draft, m marker) *diag.Diagnostic {
		n, err := strconv.ParseInt(m.value, 10, 64)
		if err != nil || n < 0 {
			return invalidValue(m, "a whole number, zero or more")
		}
		*of(d.schema) = &n
		return nil
	}
}

func deferred(*draft, marker) *diag.Diagnostic { return nil }

func setDescription(d *draft, m marker) *diag.Diagnostic {
	d.schema.Description = m.value
	return nil
}

// isImmutable is the validation rule of the marker immutable. The API server evaluates
// it only if an old value exists: an unset field can still be set.
const isImmutable = "self == oldSelf"

const immutableMessage = "field is immutable"

func setImmutable(d *draft, yes bool) {
	has := func(r extv1.ValidationRule) bool { return r.Rule == isImmutable }
	if yes && !slices.ContainsFunc(d.schema.XValidations, has) {
		d.schema.XValidations = append(d.schema.XValidations, extv1.ValidationRule{Rule: isImmutable, Message: immutableMessage})
	}
}

// addValidation adds a CEL rule without compiling it: the types are not known here. It has no message, so the API
// server quotes the rule, unless the marker message follows.
func addValidation(d *draft, m marker) *diag.Diagnostic {
	if strings.TrimSpace(m.value) == "" {
		return invalidValue(m, "a CEL expression")
	}
	d.schema.XValidations = append(d.schema.XValidations, extv1.ValidationRule{Rule: m.value})
	return nil
}

// The message belongs to the rule before it.
func setMessage(d *draft, m marker) *diag.Diagnostic {
	_, has := d.given["validation"]
	last := len(d.schema.XValidations) - 1
	switch {
	case strings.TrimSpace(m.value) == "" || strings.ContainsAny(m.value, "\r\n"):
		return invalidValue(m, "a sentence in one line")
	case !has || last < 0 || d.schema.XValidations[last].Message != "":
		return &diag.Diagnostic{Offset: m.at, Problem: `marker "message" has no rule`, Expected: `it directly after a marker "validation"`}
	}
	d.schema.XValidations[last].Message = m.value
	return nil
}

// describeRules sets the message of rules of several lines, which the API server does not quote.
func (d *draft) describeRules() {
	for i, r := range d.schema.XValidations {
		if r.Message == "" && strings.ContainsAny(r.Rule, "\r\n") {
			d.schema.XValidations[i].Message = "failed rule: " + strings.Join(strings.Fields(r.Rule), " ")
		}
	}
}

func setPattern(d *draft, m marker) *diag.Diagnostic {
	if m.value == "" {
		return invalidValue(m, "a regular expression")
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
			return invalidValue(m, "values separated by commas, none of them empty")
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

// setUnique makes a list a set, by which a schema can require unique items. Another list
// type is reported as a conflict.
func setUnique(d *draft, yes bool) {
	if _, typed := d.given["listType"]; yes && !typed {
		set := "set"
		d.schema.XListType = &set
	}
}

func setListType(d *draft, m marker) *diag.Diagnostic {
	if !slices.Contains([]string{"atomic", "set", "map"}, m.value) {
		fault := invalidValue(m, "atomic, set or map")
		fault.Nearest = diag.Nearest(m.value, []string{"atomic", "set", "map"})
		return fault
	}
	if u, ok := d.given["uniqueItems"]; ok && isTrue(u.value) && m.value != "set" {
		return listTypeConflict(m)
	}
	d.schema.XListType = &m.value
	return nil
}

func listTypeConflict(m marker) *diag.Diagnostic {
	return &diag.Diagnostic{Offset: m.at, Problem: `markers "listType" and "uniqueItems" contradict each other`, Expected: "listType=set"}
}

func isTrue(s string) bool {
	yes, err := strconv.ParseBool(s)
	return err == nil && yes
}

func addListMapKey(d *draft, m marker) *diag.Diagnostic {
	if m.value == "" {
		return invalidValue(m, "the name of a field of the items")
	}
	if !slices.Contains(d.schema.XListMapKeys, m.value) {
		d.schema.XListMapKeys = append(d.schema.XListMapKeys, m.value)
	}
	return nil
}
