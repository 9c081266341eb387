package expr

import (
	"slices"
	"sync/atomic"

	"github.com/google/cel-go/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// kind is what a schema means to an expression.
type kind int

const (
	ofAnything kind = iota
	ofObject
	ofMap
	ofList
	ofText
	ofBytes
	ofDuration
	ofTimestamp
	ofInteger
	ofNumber
	ofBoolean
	ofIntOrString
	ofQuantity
)

// shape is a schema as CEL sees it. Shapes are made when they are first asked
// for, so that a large schema costs what is read of it and a recursive one ends.
// A nil shape is like one of anything.
type shape struct {
	kind   kind
	schema *spec.Schema
	name   string // of an object: the path at which it was first met
	open   bool   // the object may hold fields that it doesn't declare
	cel    *cel.Type
	elem   *shape // of a list, of a map, and of the undeclared fields of an object

	in     *shapes
	fields atomic.Pointer[map[string]*shape]
}

func (s *shape) kindOf() kind {
	if s == nil {
		return ofAnything
	}
	return s.kind
}

// field returns the shape of a field or of a map's value, and whether there can
// be such a field at all. Names may be escaped as Kubernetes does: __namespace__.
func (s *shape) field(name string) (*shape, bool) {
	switch s.kindOf() {
	case ofAnything:
		return nil, true
	case ofMap:
		return s.elem, true
	case ofObject:
	default:
		return nil, false
	}
	if known := s.fields.Load(); known != nil {
		if f, ok := (*known)[name]; ok {
			return f, true
		}
	}
	if prop, ok := s.property(name); ok {
		return s.in.fieldOf(s, name, prop), true
	}
	if s.elem != nil {
		return s.elem, true
	}
	return nil, s.open
}

func (s *shape) property(name string) (spec.Schema, bool) {
	if prop, ok := s.schema.Properties[name]; ok {
		return prop, true
	}
	if plain, ok := apiservercel.Unescape(name); ok && plain != name {
		prop, ok := s.schema.Properties[plain]
		return prop, ok
	}
	return spec.Schema{}, false
}

// fieldNames returns the declared fields, sorted.
func (s *shape) fieldNames() []string {
	if s.kindOf() != ofObject {
		return nil
	}
	names := make([]string, 0, len(s.schema.Properties))
	for name := range s.schema.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// item returns the shape of a list's items.
func (s *shape) item() (*shape, bool) {
	switch s.kindOf() {
	case ofAnything:
		return nil, true
	case ofList:
		return s.elem, true
	default:
		return nil, false
	}
}

func (s *shape) celType() *cel.Type {
	if s == nil {
		return cel.DynType
	}
	return s.cel
}

// kindFor reads a schema. What it can't read is of any kind: a check that is
// left to the API server is better than a definition refused for nothing.
func kindFor(s *spec.Schema) kind {
	if marked(s, "x-kubernetes-int-or-string") || s.Format == "int-or-string" {
		return ofIntOrString
	}
	switch typeName(s) {
	case "object":
		return objectKind(s)
	case "array":
		return ofList
	case "string":
		return stringKind(s.Format)
	case "integer":
		return ofInteger
	case "number":
		return ofNumber
	case "boolean":
		return ofBoolean
	}
	if len(s.Properties) > 0 {
		return ofObject
	}
	return scalarUnion(s)
}

func objectKind(s *spec.Schema) kind {
	switch {
	case len(s.Properties) > 0:
		return ofObject
	case s.AdditionalProperties == nil && marked(s, "x-kubernetes-preserve-unknown-fields"):
		return ofAnything
	default:
		return ofMap
	}
}

func stringKind(format string) kind {
	switch format {
	case "byte":
		return ofBytes
	case "duration":
		return ofDuration
	case "date", "date-time":
		return ofTimestamp
	}
	return ofText
}

// scalarUnion recognises how published schemas write quantities: one of string
// and number.
func scalarUnion(s *spec.Schema) kind {
	var hasText, hasInt, hasNumber bool
	for _, alternatives := range [][]spec.Schema{s.OneOf, s.AnyOf} {
		for i := range alternatives {
			switch typeName(&alternatives[i]) {
			case "string":
				hasText = true
			case "integer":
				hasInt = true
			case "number":
				hasNumber = true
			default:
				return ofAnything
			}
		}
	}
	switch {
	case hasText && hasNumber:
		return ofQuantity
	case hasText && hasInt:
		return ofIntOrString
	}
	return ofAnything
}

// typeName returns the type, leaving aside that it may also be null.
func typeName(s *spec.Schema) string {
	name := ""
	for _, t := range s.Type {
		switch {
		case t == "null":
		case name == "":
			name = t
		default:
			return "" // a union of types
		}
	}
	return name
}

func marked(s *spec.Schema, extension string) bool {
	on, ok := s.Extensions.GetBool(extension)
	return on && ok
}
