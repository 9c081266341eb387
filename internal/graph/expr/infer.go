package expr

import (
	"cmp"
	"reflect"

	"github.com/google/cel-go/cel"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Schema returns the structural schema of what the template renders, as far as
// the types of its expressions and its literals tell. What they don't tell may
// be anything, and so may what is beyond the most fields: types that are made of others
// can be many times as large as what is written.
func (t *Template) Schema() *extv1.JSONSchemaProps {
	r := &inference{shapes: t.env.shapes, left: mostInferred}
	out := r.infer(&t.root)
	return &out
}

// mostInferred bounds the fields of an inferred schema. A Deployment has some thousand.
const mostInferred = 20_000

// inference counts down the fields that may still be inferred.
type inference struct {
	*shapes
	left int
}

func (r *inference) infer(p *piece) extv1.JSONSchemaProps {
	switch p.kind {
	case fields:
		out := extv1.JSONSchemaProps{Type: "object", Properties: map[string]extv1.JSONSchemaProps{}}
		for i := range p.fields {
			out.Properties[p.fields[i].name] = r.infer(&p.fields[i].value)
		}
		return out
	case list:
		var items []extv1.JSONSchemaProps
		for i := range p.items {
			items = append(items, r.infer(&p.items[i]))
		}
		return listOf(agreed(items))
	case standalone:
		if p.prog.chain != nil {
			if s, ok := p.prog.env.at(*p.prog.chain); ok {
				return r.fieldSchema(s, nil)
			}
		}
		return r.schemaOf(p.prog.typ, nil)
	case interpolated:
		return extv1.JSONSchemaProps{Type: "string"}
	default:
		return inferLiteral(p.literal)
	}
}

func inferLiteral(v any) extv1.JSONSchemaProps {
	switch v := v.(type) {
	case string:
		return extv1.JSONSchemaProps{Type: "string"}
	case bool:
		return extv1.JSONSchemaProps{Type: "boolean"}
	case int64:
		return extv1.JSONSchemaProps{Type: "integer"}
	case float64:
		return extv1.JSONSchemaProps{Type: "number"}
	case []any:
		var items []extv1.JSONSchemaProps
		for _, item := range v {
			items = append(items, inferLiteral(item))
		}
		return listOf(agreed(items))
	case map[string]any:
		out := extv1.JSONSchemaProps{Type: "object", Properties: map[string]extv1.JSONSchemaProps{}}
		for name, value := range v {
			out.Properties[name] = inferLiteral(value)
		}
		return out
	}
	return whatever()
}

// agreed returns the schema that all have in common, which is whatever unless
// they are equal.
func agreed(all []extv1.JSONSchemaProps) extv1.JSONSchemaProps {
	if len(all) == 0 {
		return whatever()
	}
	for _, s := range all[1:] {
		if !reflect.DeepEqual(s, all[0]) {
			return whatever()
		}
	}
	return nullable(all[0])
}

// nullable allows an item to be null while a later one is there already.
func nullable(s extv1.JSONSchemaProps) extv1.JSONSchemaProps {
	s.Nullable = true
	return s
}

func whatever() extv1.JSONSchemaProps {
	yes := true
	return extv1.JSONSchemaProps{XPreserveUnknownFields: &yes}
}

func listOf(item extv1.JSONSchemaProps) extv1.JSONSchemaProps {
	return extv1.JSONSchemaProps{Type: "array", Items: &extv1.JSONSchemaPropsOrArray{Schema: &item}}
}

func mapOf(value extv1.JSONSchemaProps) extv1.JSONSchemaProps {
	return extv1.JSONSchemaProps{
		Type: "object", AdditionalProperties: &extv1.JSONSchemaPropsOrBool{Allows: true, Schema: &value},
	}
}

// schemaOf returns the schema of a type. The objects that it is inside of, by
// their type's name, end a recursion.
func (r *inference) schemaOf(t *cel.Type, inside map[string]bool) extv1.JSONSchemaProps {
	if inner, ok := unwrapped(t); ok {
		t = inner
	}
	switch t.Kind() {
	case cel.BoolKind:
		return extv1.JSONSchemaProps{Type: "boolean"}
	case cel.IntKind, cel.UintKind:
		return extv1.JSONSchemaProps{Type: "integer"}
	case cel.DoubleKind:
		return extv1.JSONSchemaProps{Type: "number"}
	case cel.StringKind:
		return extv1.JSONSchemaProps{Type: "string"}
	case cel.BytesKind:
		return extv1.JSONSchemaProps{Type: "string", Format: "byte"}
	case cel.TimestampKind:
		return extv1.JSONSchemaProps{Type: "string", Format: "date-time"}
	case cel.DurationKind:
		return extv1.JSONSchemaProps{Type: "string", Format: "duration"}
	case cel.ListKind:
		return listOf(r.schemaOf(t.Parameters()[0], inside))
	case cel.MapKind:
		return mapOf(r.schemaOf(t.Parameters()[1], inside))
	case cel.StructKind:
		if s := r.named(t.TypeName()); s != nil {
			return r.objectSchema(s, inside)
		}
	default: // a type of a library, or of nothing in particular
	}
	if writtenTypes[t.TypeName()] {
		return extv1.JSONSchemaProps{Type: "string"}
	}
	return whatever()
}

func (r *inference) objectSchema(s *shape, inside map[string]bool) extv1.JSONSchemaProps {
	if inside[s.name] || r.left <= 0 {
		return whatever()
	}
	within := map[string]bool{s.name: true}
	for name := range inside {
		within[name] = true
	}
	out := extv1.JSONSchemaProps{Type: "object", Properties: map[string]extv1.JSONSchemaProps{}}
	for _, name := range s.fieldNames() {
		r.left--
		f, _ := s.field(name)
		out.Properties[name] = r.fieldSchema(f, within)
	}
	if s.open || s.elem != nil {
		out.XPreserveUnknownFields = whatever().XPreserveUnknownFields
	}
	return out
}

// fieldSchema knows more than the type of a field: that a number may also be a
// string.
func (r *inference) fieldSchema(s *shape, inside map[string]bool) extv1.JSONSchemaProps {
	switch s.kindOf() {
	case ofIntOrString, ofQuantity:
		return extv1.JSONSchemaProps{XIntOrString: true}
	case ofTimestamp:
		return extv1.JSONSchemaProps{Type: "string", Format: cmp.Or(s.schema.Format, "date-time")}
	default:
		return r.schemaOf(s.celType(), inside)
	}
}
