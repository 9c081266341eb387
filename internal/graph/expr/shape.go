package expr

import (
	"slices"
	"sync/atomic"

	"github.com/google/cel-go/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// kind is the kind of value that a schema describes to an expression.
type kind int

const (
	ofAnything kind = iota
	ofObject
	ofMap
	ofList
	ofString
	ofBytes
	ofDuration
	ofTimestamp
	ofInteger
	ofNumber
	ofBoolean
	ofIntOrString
	ofQuantity
)

// shape is a schema as CEL sees it. The shapes of fields are created on first use, so that
// a large schema costs only what is read of it and a recursive schema ends. A nil shape
// allows anything.
type shape struct {
	kind   kind
	schema *spec.Schema  // of an object
	traits *schemaTraits // of any other value; nil for none
	name   string        // of an object: the path at which it was first found
	open   bool          // the object may have undeclared fields
	cel    *cel.Type
	elem   *shape // of a list, of a map, and of the undeclared fields of an object

	in     *shapes
	fields atomic.Pointer[map[string]*shape]
}

// schemaTraits are what the schema of a value that is no object says besides its kind. A schema takes six
// times as much memory, and there is a shape for each field that expressions read.
type schemaTraits struct {
	format      string
	description string
	enum        []any
	extensions  spec.Extensions
}

func traitsOf(s *spec.Schema) *schemaTraits {
	if s.Format == "" && s.Description == "" && len(s.Enum) == 0 && len(s.Extensions) == 0 {
		return nil
	}
	return &schemaTraits{format: s.Format, description: s.Description, enum: s.Enum, extensions: s.Extensions}
}

// schemaTraits returns the traits of a shape, which may be nil.
func (s *shape) schemaTraits() schemaTraits {
	if s == nil || s.traits == nil {
		return schemaTraits{}
	}
	return *s.traits
}

func (s *shape) kindOf() kind {
	if s == nil {
		return ofAnything
	}
	return s.kind
}

// field returns the shape of a field or of a map's value, and whether such a field can
// exist. Names may be escaped as in Kubernetes: __namespace__.
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

// kindOfSchema returns the kind of a schema. A schema that it does not understand allows
// anything: to leave the check to the API server is better than to refuse a valid
// definition.
func kindOfSchema(s *spec.Schema) kind {
	if hasExtension(s, "x-kubernetes-int-or-string") || s.Format == "int-or-string" {
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

// hasNoFields says whether a schema forbids all fields. One that only names none may allow
// them: published schemas describe free-form objects so.
func hasNoFields(s *spec.Schema) bool {
	return s.AdditionalProperties != nil && !s.AdditionalProperties.Allows && s.AdditionalProperties.Schema == nil
}

func objectKind(s *spec.Schema) kind {
	switch {
	case len(s.Properties) > 0, hasNoFields(s):
		return ofObject
	case s.AdditionalProperties == nil && hasExtension(s, "x-kubernetes-preserve-unknown-fields"):
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
	return ofString
}

// scalarUnion recognizes unions such as string or number, by which published schemas
// describe quantities.
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

// typeName returns the type other than null; empty for a union of types.
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

func hasExtension(s *spec.Schema, extension string) bool {
	on, ok := s.Extensions.GetBool(extension)
	return on && ok
}
