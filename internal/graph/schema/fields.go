package schema

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// fieldName matches the names that expressions can read. Users could set a field with
// another name, but the author could never read it.
var fieldName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_./-]*$`)

// fields is the schema of an object with the given fields.
//
// An object gets an empty default, or with rules inside a complete one, if fields inside it have defaults, so these
// apply when the whole object is left out. It gets none if a field is required: the empty object would be invalid.
func (p *parser) fields(spec map[string]any, at object.Path, depth int) *extv1.JSONSchemaProps {
	if !p.checkSize(len(spec), depth, at) {
		return anything()
	}
	s := &extv1.JSONSchemaProps{Type: "object", Properties: make(map[string]extv1.JSONSchemaProps, len(spec))}
	defaults := false
	for _, name := range slices.Sorted(maps.Keys(spec)) {
		path := at.Field(name)
		p.checkName(name, path, fieldName, "a field's name", "letters, digits and _ - . /, beginning with a letter or _")
		field, required := p.field(spec[name], path, depth+1)
		s.Properties[name] = *field
		if required {
			s.Required = append(s.Required, name)
		}
		defaults = defaults || field.Default != nil
	}
	if defaults && len(s.Required) == 0 {
		s.Default = &extv1.JSON{Raw: []byte("{}")}
		completeDefault(s)
	}
	return s
}

// field also reports whether the field must be set.
func (p *parser) field(spec any, at object.Path, depth int) (*extv1.JSONSchemaProps, bool) {
	const expected = `a type such as "string | required=true", or the fields of an object`
	switch v := spec.(type) {
	case string:
		return p.parseField(v, at, depth)
	case map[string]any:
		if hint, ok := openAPI(v); ok {
			p.problems.Add(diag.Diagnostic{Path: at, Problem: "this is an OpenAPI schema, not SimpleSchema", Expected: hint})
			return anything(), false
		}
		return p.fields(v, at, depth), false
	case nil:
		p.problems.Add(diag.Diagnostic{Path: at, Problem: "the field has no type", Expected: expected})
	case []any:
		p.problems.Add(diag.Diagnostic{Path: at, Problem: "a list is not a type", Expected: `the type of a list as text, such as "[]string"`})
	default:
		p.problems.Add(diag.Diagnostic{Path: at, Problem: fmt.Sprintf("%v is not a type", v), Expected: expected})
	}
	return anything(), false
}

// checkSize counts the fields of an object and reports whether the schema is still within its limits. It reports the
// first excess.
func (p *parser) checkSize(fields, depth int, at object.Path) bool {
	if depth > maxDepth {
		p.problems.Addf(at, "the schema is nested too deeply; at most %d levels are allowed", maxDepth)
		return false
	}
	before := p.count
	p.count += fields
	if p.count <= maxFields {
		return true
	}
	if before <= maxFields {
		p.problems.Addf(at, "the schema has too many fields; at most %d are allowed, with types expanded", maxFields)
	}
	return false
}

func (p *parser) checkName(name string, at object.Path, valid *regexp.Regexp, what, expected string) {
	switch {
	case len(name) > maxName:
		p.problems.Addf(at, "%s is too long: %d bytes; at most %d are allowed", what, len(name), maxName)
	case !valid.MatchString(name):
		p.problems.Add(diag.Diagnostic{Path: at, Problem: fmt.Sprintf("%q cannot be %s", name, what), Expected: expected})
	}
}

// openAPI reports whether fields are an OpenAPI schema, and what says the same in SimpleSchema. Fields may be named
// "type" or "items" too, so it recognizes an OpenAPI schema by values that are not valid in SimpleSchema.
func openAPI(fields map[string]any) (hint string, ok bool) {
	hints := map[string]string{
		"string": `"string"`, "integer": `"integer"`, "number": `"float"`, "boolean": `"boolean"`,
		"object": `"map[string]string" or the fields themselves`, "array": `"[]string"`,
	}
	typ, _ := fields["type"].(string)
	hint, ok = hints[typ]
	if !ok {
		return "", false
	}
	for _, name := range []string{"properties", "additionalProperties", "items"} {
		if _, nested := fields[name].(map[string]any); nested {
			return hint, true
		}
	}
	for _, name := range []string{"enum", "required", "default", "minimum", "maximum", "minLength", "maxLength", "additionalProperties"} {
		if v, given := fields[name]; given {
			if _, text := v.(string); !text {
				return hint, true
			}
		}
	}
	return "", false
}
