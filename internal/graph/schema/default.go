package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/internal/diag"
)

// setDefault parses the default of a field as a value of the field's type.
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
			Offset: m.valueAt, Problem: fmt.Sprintf("invalid default: %q is not %s", m.value, typeNoun(d.schema.Type)), Expected: exampleDefault(d.schema),
		}
	}
	if why := validate(d.schema, v, ""); why != "" {
		return &diag.Diagnostic{Offset: m.valueAt, Problem: "invalid default: " + why}
	}
	d.schema.Default = &extv1.JSON{Raw: compact(m.value)}
	return nil
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

// unescape returns the text of a string's default. The dialect puts the text between the
// quotes of a JSON string, so that \n is a new line; text that is not valid there is used
// unchanged.
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

// decode parses one JSON value. It keeps the text of numbers.
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

// compact removes the white space from valid JSON.
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
