package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// Written is a schema in SimpleSchema.
type Written struct {
	Spec, Types map[string]any
	// Lost is what SimpleSchema cannot say, and what it says in addition.
	Lost diag.List
}

// Write writes the fields of an object in SimpleSchema, the reverse of Parse. Objects with markers, and those in
// lists and maps, become types.
func Write(s *extv1.JSONSchemaProps, at object.Path) Written {
	w := &schemaWriter{out: Written{Types: map[string]any{}}}
	w.out.Spec = w.fields(s, at, "")
	w.out.Lost = w.out.Lost.Sorted()
	return w.out
}

type schemaWriter struct{ out Written }

// fields are the fields of an object; name is that of its type, in upper camel case.
func (w *schemaWriter) fields(s *extv1.JSONSchemaProps, at object.Path, name string) map[string]any {
	out := map[string]any{}
	for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[field]
		out[field] = w.field(&p, at.Field(field), name+upperCamel(field), slices.Contains(s.Required, field))
	}
	return out
}

// field is a field with its markers, or an object in place.
func (w *schemaWriter) field(p *extv1.JSONSchemaProps, at object.Path, name string, required bool) any {
	markers := w.markers(p, at)
	if required {
		markers = append([]string{"required=true"}, markers...)
	}
	if hasOnlyFields(p) && len(markers) == 0 {
		return w.fields(p, at, name)
	}
	return strings.TrimSuffix(w.typeOf(p, at, name)+" | "+strings.Join(markers, " "), " | ")
}

// hasOnlyFields says whether a schema is that of an object that keeps the fields that it declares, if any.
func hasOnlyFields(p *extv1.JSONSchemaProps) bool {
	keeps := p.XPreserveUnknownFields != nil && *p.XPreserveUnknownFields
	return p.Type == "object" && p.AdditionalProperties == nil && (len(p.Properties) > 0 || !keeps)
}

// typeOf is the type of a field, an item or a value without its markers.
func (w *schemaWriter) typeOf(p *extv1.JSONSchemaProps, at object.Path, name string) string {
	switch {
	case p.Type == "array" && p.Items != nil && p.Items.Schema != nil:
		return "[]" + w.element(p.Items.Schema, at.Index(0), name+"Item")
	case p.Type == "object" && p.AdditionalProperties != nil && p.AdditionalProperties.Schema != nil:
		return "map[string]" + w.element(p.AdditionalProperties.Schema, at.Field("*"), name+"Value")
	case hasOnlyFields(p):
		return w.define(name, w.fields(p, at, name))
	case p.Type == "object":
		return "object"
	case p.Type == "string" || p.Type == "integer" || p.Type == "number" || p.Type == "boolean":
		return p.Type
	}
	w.out.Lost.Addf(at, "has no type, or several; SimpleSchema knows no such field, and string stands for it")
	return "string"
}

// element is the type of an item or a value, which has no markers of its own: they make it a type.
func (w *schemaWriter) element(p *extv1.JSONSchemaProps, at object.Path, name string) string {
	markers := w.markers(p, at)
	text := w.typeOf(p, at, name)
	if len(markers) == 0 {
		return text
	}
	return w.define(name+"Type", text+" | "+strings.Join(markers, " "))
}

// define adds a type and returns its name: another one if the name is taken.
func (w *schemaWriter) define(name string, what any) string {
	for n := 1; ; n++ {
		candidate := name
		if n > 1 {
			candidate = name + strconv.Itoa(n)
		}
		if _, taken := w.out.Types[candidate]; !taken {
			w.out.Types[candidate] = what
			return candidate
		}
	}
}

func upperCamel(field string) string {
	var b strings.Builder
	upper := true
	for _, r := range field {
		switch {
		case (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9'):
			upper = true
		case upper:
			b.WriteString(strings.ToUpper(string(r)))
			upper = false
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// writable are the keywords of OpenAPI that SimpleSchema can say, those of some types only by markers.
var writable = []string{
	"type", "description", "default", "enum", "minimum", "maximum", "minLength", "maxLength", "pattern", "minItems", "maxItems", "items",
	"properties", "required", "additionalProperties", "x-kubernetes-validations", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
	"x-kubernetes-preserve-unknown-fields",
}

// kroMessage is the message that kro gives to all rules of the marker validation.
const kroMessage = "validation failed"

// markers are the markers of a field, without required. It reports what no marker says.
func (w *schemaWriter) markers(p *extv1.JSONSchemaProps, at object.Path) []string {
	for _, keyword := range keywords(p) {
		if !slices.Contains(writable, keyword) {
			w.out.Lost.Addf(at, "SimpleSchema has no %s", keyword)
		}
	}
	var out []string
	add := func(name, value string) { out = append(out, name+"="+value) }
	if p.Description != "" {
		add("description", quoteMarker(p.Description))
	}
	out = append(out, w.limits(p, at)...)
	for _, v := range p.XValidations {
		if v.Rule == isImmutable && v.Message == immutableMessage {
			add("immutable", "true")
			continue
		}
		if v.MessageExpression != "" || v.Reason != nil || v.FieldPath != "" || v.OptionalOldSelf != nil {
			w.out.Lost.Addf(at, "the message expression, reason and field of rule %q", v.Rule)
		}
		add("validation", quoteMarker(v.Rule))
		if v.Message != "" && v.Message != kroMessage {
			add("message", quoteMarker(v.Message))
		}
	}
	if p.XListType != nil {
		add("listType", *p.XListType)
	}
	for _, key := range p.XListMapKeys {
		add("listMapKey", quoteMarker(key))
	}
	switch {
	case p.Default != nil:
		add("default", w.defaultOf(p))
	case len(p.Properties) > 0 && len(p.Required) == 0 && hasDefault(p):
		w.out.Lost.Addf(at, "where it is absent, SimpleSchema creates it with the defaults of its fields")
	}
	if p.XPreserveUnknownFields != nil && *p.XPreserveUnknownFields && len(p.Properties) > 0 {
		w.out.Lost.Addf(at, "fields beside those of the schema are not kept")
	}
	return out
}

// limits are the markers that limit values.
func (w *schemaWriter) limits(p *extv1.JSONSchemaProps, at object.Path) (out []string) {
	number := func(name string, v *float64) {
		if v != nil {
			out = append(out, name+"="+strconv.FormatFloat(*v, 'f', -1, 64))
		}
	}
	count := func(name string, v *int64) {
		if v != nil {
			out = append(out, name+"="+strconv.FormatInt(*v, 10))
		}
	}
	if len(p.Enum) > 0 {
		values, ok := make([]string, 0, len(p.Enum)), p.Type == "string" || p.Type == "integer"
		for _, v := range p.Enum {
			text := string(v.Raw)
			if p.Type == "string" {
				ok = ok && json.Unmarshal(v.Raw, &text) == nil && !strings.Contains(text, ",") && text == strings.TrimSpace(text) && text != ""
			}
			values = append(values, text)
		}
		if ok {
			out = append(out, "enum="+quoteMarker(strings.Join(values, ",")))
		} else {
			w.out.Lost.Addf(at, "an enum of other values than integers and words without commas")
		}
	}
	number("minimum", p.Minimum)
	number("maximum", p.Maximum)
	count("minLength", p.MinLength)
	count("maxLength", p.MaxLength)
	if p.Pattern != "" {
		out = append(out, "pattern="+quoteMarker(p.Pattern))
	}
	count("minItems", p.MinItems)
	count("maxItems", p.MaxItems)
	return out
}

// keywords are the keywords that a schema has.
func keywords(p *extv1.JSONSchemaProps) []string {
	raw, err := json.Marshal(p)
	if err != nil {
		return nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(fields))
}

// defaultOf is a default as JSON in one line, and a string in quotes.
func (w *schemaWriter) defaultOf(p *extv1.JSONSchemaProps) string {
	var text string
	if p.Type == "string" && json.Unmarshal(p.Default.Raw, &text) == nil {
		return quoteMarker(text)
	}
	var compact bytes.Buffer
	if json.Compact(&compact, p.Default.Raw) != nil {
		return string(p.Default.Raw)
	}
	return compact.String()
}

// hasDefault says whether a field has a default.
func hasDefault(p *extv1.JSONSchemaProps) bool {
	for _, field := range p.Properties {
		if field.Default != nil || len(field.Required) == 0 && hasDefault(&field) {
			return true
		}
	}
	return false
}

// quoteMarker is the value of a marker in quotes.
func quoteMarker(text string) string {
	return fmt.Sprintf(`"%s"`, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text))
}
