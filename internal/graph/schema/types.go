package schema

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

var typeName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

var builtin = map[string]string{
	"string": "string", "integer": "integer", "boolean": "boolean",
	"float": "number", "number": "number", "object": "object",
}

// typeAliases are names of other languages, with the type of the dialect.
var typeAliases = map[string]string{
	"str": "string", "text": "string", "int": "integer", "int32": "integer", "int64": "integer",
	"long": "integer", "bool": "boolean", "double": "float", "float32": "float", "float64": "float",
	"decimal": "float", "any": "object", "struct": "object", "dict": "map[string]string",
	"map": "map[string]string", "list": "[]string", "array": "[]string",
}

const maxShownCycle = 12

type custom struct {
	schema   *extv1.JSONSchemaProps
	required bool
	fields   int
	height   int
}

func (p *parser) checkTypeName(name string) {
	at := p.typesPath.Field(name)
	if _, taken := builtin[name]; taken {
		p.problems.Addf(at, "%q is a built-in type; choose another name", name)
		return
	}
	p.checkName(name, at, typeName, "a type's name", "letters, digits and _ - ., beginning with a letter or _")
}

// resolve expands the custom type of the given name, once. It reports each cycle once; a
// type of a cycle allows anything.
func (p *parser) resolve(name string) (custom, bool) {
	spec, defined := p.types[name]
	if !defined {
		return custom{}, false
	}
	if c, done := p.resolved[name]; done {
		return c, true
	}
	if i := slices.Index(p.resolving, name); i >= 0 {
		p.reportCycle(p.resolving[i:])
		return custom{schema: anything()}, true
	}
	p.resolving = append(p.resolving, name)
	outer := p.count
	p.count = 0
	s, required := p.field(spec, p.typesPath.Field(name), 0)
	c := custom{schema: s, required: required, fields: p.count, height: height(s)}
	if c.fields > maxFields {
		// The excess is reported here, and not again at each use of the type.
		c = custom{schema: anything()}
	}
	p.count = outer
	p.resolving = p.resolving[:len(p.resolving)-1]
	p.resolved[name] = c
	return c, true
}

// reportCycle reports a cycle of types. It begins with the smallest name, so the message does not depend on where the
// cycle was entered.
func (p *parser) reportCycle(names []string) {
	first := slices.Index(names, slices.Min(names))
	path := slices.Concat(names[first:], names[:first+1])
	text := strings.Join(path, " → ")
	if p.cycles[text] {
		return
	}
	p.cycles[text] = true
	if more := len(path) - maxShownCycle; more > 0 {
		head, last := path[:maxShownCycle-1], path[len(path)-1]
		text = fmt.Sprintf("%s → (%d more) → %s", strings.Join(head, " → "), more, last)
	}
	p.problems.Addf(p.typesPath.Field(path[0]), "types form a cycle: %s", text)
}

// schemaOf also reports whether fields of the type are required.
func (p *parser) schemaOf(t typeExpr, text string, at object.Path, depth int) (*extv1.JSONSchemaProps, bool) {
	if !p.checkSize(0, depth, at) {
		return anything(), false
	}
	switch t.kind {
	case list:
		items, _ := p.schemaOf(*t.elem, text, at, depth+1)
		return &extv1.JSONSchemaProps{Type: "array", Items: &extv1.JSONSchemaPropsOrArray{Schema: items}}, false
	case mapping:
		// The API server sets Allows beside a schema. Set here too, it keeps the schema
		// equal after a round trip.
		values, _ := p.schemaOf(*t.elem, text, at, depth+1)
		return &extv1.JSONSchemaProps{
			Type:                 "object",
			AdditionalProperties: &extv1.JSONSchemaPropsOrBool{Allows: true, Schema: values},
		}, false
	case named:
		return p.namedSchema(t, text, at, depth)
	default:
		return anything(), false
	}
}

func (p *parser) namedSchema(t typeExpr, text string, at object.Path, depth int) (*extv1.JSONSchemaProps, bool) {
	if openapi, ok := builtin[t.name]; ok {
		s := &extv1.JSONSchemaProps{Type: openapi}
		if openapi == "object" {
			s.XPreserveUnknownFields = anything().XPreserveUnknownFields
		}
		return s, false
	}
	c, ok := p.resolve(t.name)
	if !ok {
		p.report(at, text, p.unknownType(t))
		return anything(), false
	}
	if !p.checkSize(c.fields, depth+c.height, at) {
		return anything(), false
	}
	return c.schema.DeepCopy(), c.required
}

func (p *parser) unknownType(t typeExpr) diag.Diagnostic {
	d := diag.Diagnostic{Offset: t.at, Problem: "there is no type " + quote(t.name)}
	if d.Nearest = typeAliases[t.name]; d.Nearest != "" {
		return d
	}
	var known []string
	for name := range builtin {
		known = append(known, name)
	}
	for name := range p.types {
		known = append(known, name)
	}
	d.Nearest = diag.Nearest(t.name, known)
	return d
}

func height(s *extv1.JSONSchemaProps) int {
	h := 0
	for _, below := range children(s) {
		h = max(h, 1+height(below))
	}
	return h
}

// children are in no order.
func children(s *extv1.JSONSchemaProps) []*extv1.JSONSchemaProps {
	var out []*extv1.JSONSchemaProps
	for _, field := range s.Properties {
		out = append(out, &field)
	}
	if s.Items != nil && s.Items.Schema != nil {
		out = append(out, s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		out = append(out, s.AdditionalProperties.Schema)
	}
	return out
}
