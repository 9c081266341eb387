package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/internal/diag"
)

func setDefault(d *draft, m marker) *diag.Diagnostic {
	d.schema.Default = nil
	if d.schema.Type == "string" {
		text := unescape(m.value)
		if why := validate(d.schema, text, ""); why != "" {
			return &diag.Diagnostic{Offset: m.valueAt, Problem: "invalid default: " + why}
		}
		d.schema.Default = &extv1.JSON{Raw: encode(text)}
		return nil
	}
	v, err := decode(m.value)
	if err != nil {
		return &diag.Diagnostic{
			Offset: m.valueAt, Problem: fmt.Sprintf("invalid default: %q is not %s", m.value, Noun(d.schema.Type)), Expected: exampleDefault(d.schema),
		}
	}
	if why := validate(d.schema, v, ""); why != "" {
		return &diag.Diagnostic{Offset: m.valueAt, Problem: "invalid default: " + why}
	}
	d.schema.Default = &extv1.JSON{Raw: compact(m.value)}
	return nil
}

// completeDefault adds to a default the defaults of what is inside it, if there are rules: the API server evaluates
// them on the default as it is written.
func completeDefault(s *extv1.JSONSchemaProps) {
	if s.Default == nil || !hasRules(s) {
		return
	}
	if v, err := decode(string(s.Default.Raw)); err == nil {
		s.Default = &extv1.JSON{Raw: encode(withDefaults(s, v))}
	}
}

// hasRules reports whether a schema has rules other than the marker immutable's, which need an old value.
func hasRules(s *extv1.JSONSchemaProps) bool {
	return slices.ContainsFunc(s.XValidations, func(r extv1.ValidationRule) bool { return r.Rule != isImmutable }) ||
		slices.ContainsFunc(children(s), hasRules)
}

// withDefaults adds the defaults of a schema to a value, as the API server does to objects.
func withDefaults(s *extv1.JSONSchemaProps, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, field := range s.Properties {
			if v[name] == nil && field.Default != nil {
				v[name], _ = decode(string(field.Default.Raw)) // the default is valid
			}
		}
		for name, below := range v {
			if field, declared := s.Properties[name]; declared {
				v[name] = withDefaults(&field, below)
			} else if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
				v[name] = withDefaults(s.AdditionalProperties.Schema, below)
			}
		}
	case []any:
		for i := range v {
			v[i] = withDefaults(s.Items.Schema, v[i])
		}
	}
	return v
}

// inheritedDefaultProblem reports that the default of a custom type violates this field's
// markers.
func (d *draft) inheritedDefaultProblem() *diag.Diagnostic {
	if d.schema.Default == nil || len(d.given) == 0 {
		return nil
	}
	v, err := decode(string(d.schema.Default.Raw))
	if err != nil {
		return nil
	}
	if why := validate(d.schema, v, ""); why != "" {
		return &diag.Diagnostic{Offset: d.typ.at, Problem: "invalid default of the type: " + why, Expected: "a default marker on this field"}
	}
	return nil
}

// unescape returns the text of a string's default. The dialect puts the text between the quotes of a JSON string, so
// \n is a new line; text that is not valid there is used unchanged.
func unescape(value string) string {
	var text string
	if err := json.Unmarshal([]byte(`"`+value+`"`), &text); err != nil {
		return value
	}
	return text
}

func exampleDefault(s *extv1.JSONSchemaProps) string {
	switch s.Type {
	case "boolean":
		return "true or false"
	case "array":
		return `JSON, such as ["a", "b"]`
	case "object":
		return `JSON, such as {"key": "value"}`
	default:
		return "a number"
	}
}

// decode keeps the text of numbers.
func decode(text string) (any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("unexpected text after the value")
	}
	return v, nil
}

func compact(text string) []byte {
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text)); err != nil {
		return []byte(text)
	}
	return b.Bytes()
}

// encode writes a value as JSON without escaping < and &.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		// Only values that came from JSON or are strings get here.
		panic(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
