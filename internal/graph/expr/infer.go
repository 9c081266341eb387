package expr

import (
	"cmp"
	"reflect"

	"github.com/google/cel-go/cel"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Schema returns the structural schema of the rendered template, inferred from the types
// of its expressions and literals. A value of unknown type may be anything, and so may the
// fields beyond maxInferredFields: types composed of other types can be many times as
// large as the template.
func (t *Template) Schema() *extv1.JSONSchemaProps {
	r := &inference{shapes: t.scope.shapes, remainingFields: maxInferredFields}
	out := r.schemaOfPiece(t.root)
	return &out
}

// maxInferredFields bounds the fields of an inferred schema. A Deployment has about a
// thousand.
const maxInferredFields = 20_000

type inference struct {
	*shapes
	remainingFields int
}

func (r *inference) schemaOfPiece(p piece) extv1.JSONSchemaProps {
	switch p := p.(type) {
	case objectPiece:
		out := extv1.JSONSchemaProps{Type: "object", Properties: map[string]extv1.JSONSchemaProps{}}
		for _, f := range p {
			out.Properties[f.name] = r.schemaOfPiece(f.value)
		}
		return out
	case listPiece:
		var items []extv1.JSONSchemaProps
		for _, item := range p {
			items = append(items, r.schemaOfPiece(item))
		}
		return listOf(commonSchema(items))
	case *valuePiece:
		if path, is := p.Path(); is {
			if s, ok := p.scope.shapeAt(path); ok {
				return r.fieldSchema(s, nil)
			}
		}
		return r.schemaOf(p.typ, nil)
	case *textPiece:
		return extv1.JSONSchemaProps{Type: "string"}
	default:
		return inferLiteral(p)
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
		return listOf(commonSchema(items))
	case map[string]any:
		out := extv1.JSONSchemaProps{Type: "object", Properties: map[string]extv1.JSONSchemaProps{}}
		for name, value := range v {
			out.Properties[name] = inferLiteral(value)
		}
		return out
	}
	return anySchema()
}

// commonSchema returns anySchema unless all schemas are equal.
func commonSchema(all []extv1.JSONSchemaProps) extv1.JSONSchemaProps {
	if len(all) == 0 {
		return anySchema()
	}
	for _, s := range all[1:] {
		if !reflect.DeepEqual(s, all[0]) {
			return anySchema()
		}
	}
	return nullable(all[0])
}

// nullable allows null: an item is null while only later items have a value.
func nullable(s extv1.JSONSchemaProps) extv1.JSONSchemaProps {
	s.Nullable = true
	return s
}

func anySchema() extv1.JSONSchemaProps {
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

// schemaOf returns the schema of a type. inside contains the type names of the enclosing objects: recursion ends
// there.
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
		if s := r.byTypeName(t.TypeName()); s != nil {
			return r.objectSchema(s, inside)
		}
	default: // a type of a library, or an unknown type
	}
	if stringTypes[t.TypeName()] {
		return extv1.JSONSchemaProps{Type: "string"}
	}
	return anySchema()
}

func (r *inference) objectSchema(s *shape, inside map[string]bool) extv1.JSONSchemaProps {
	if inside[s.object.name] || r.remainingFields <= 0 {
		return anySchema()
	}
	within := map[string]bool{s.object.name: true}
	for name := range inside {
		within[name] = true
	}
	out := extv1.JSONSchemaProps{Type: "object", Properties: map[string]extv1.JSONSchemaProps{}}
	for _, name := range s.fieldNames() {
		r.remainingFields--
		f, _ := s.field(name)
		out.Properties[name] = r.fieldSchema(f, within)
	}
	if s.object.open || s.elem != nil {
		out.XPreserveUnknownFields = anySchema().XPreserveUnknownFields
	}
	return out
}

// fieldSchema returns the schema of a field, which says more than its CEL type: that a
// number may also be a string.
func (r *inference) fieldSchema(s *shape, inside map[string]bool) extv1.JSONSchemaProps {
	switch s.kindOf() {
	case ofIntOrString, ofQuantity:
		return extv1.JSONSchemaProps{XIntOrString: true}
	case ofTimestamp:
		return extv1.JSONSchemaProps{Type: "string", Format: cmp.Or(s.schemaTraits().format, "date-time")}
	default:
		return r.schemaOf(s.celType(), inside)
	}
}
