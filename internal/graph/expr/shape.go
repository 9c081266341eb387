package expr

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/google/cel-go/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

type kind uint8

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

// shape is a schema as CEL sees it. The shapes of fields are created on first use, so a large schema costs only what
// is read of it and a recursive schema ends. A nil shape allows anything.
type shape struct {
	kind   kind
	traits *schemaTraits // nil for none, and for an object
	cel    *cel.Type
	elem   *shape // of a list, of a map, and of the undeclared fields of an object
	object *objectShape
}

// objectShape is the part of a shape that only objects have.
type objectShape struct {
	name     string // the path at which it was first found
	open     bool   // the object may have undeclared fields
	declared objectTraits
	in       *shapes
	// fields are those that have been read, sorted by name. A slice of them is never changed: readers use it
	// without a lock.
	fields atomic.Pointer[[]fieldShape]
}

type fieldShape struct {
	name  string
	shape *shape
}

// objectTraits are what the schema of an object says, as far as expressions need it.
type objectTraits struct {
	// properties are the declared fields, except those in objectShape.fields from the beginning.
	properties  map[string]spec.Schema
	required    []string
	description string
	additional  *spec.SchemaOrBool
	extensions  spec.Extensions
}

func objectTraitsOf(s *spec.Schema) objectTraits {
	return objectTraits{properties: s.Properties, required: s.Required, description: s.Description, additional: s.AdditionalProperties, extensions: s.Extensions}
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

// The shape may be nil.
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
	if f, known := s.object.known(name); known {
		return f, true
	}
	if plain, ok := apiservercel.Unescape(name); ok && s.object.declared.properties == nil {
		if f, known := s.object.known(plain); known {
			return f, true
		}
	}
	if prop, ok := s.object.property(name); ok {
		return s.object.in.fieldOf(s.object, name, &prop), true
	}
	if s.elem != nil {
		return s.elem, true
	}
	return nil, s.object.open
}

func (o *objectShape) known(name string) (*shape, bool) {
	fields := o.fields.Load()
	if fields == nil {
		return nil, false
	}
	i, found := findField(*fields, name)
	if !found {
		return nil, false
	}
	return (*fields)[i].shape, true
}

func findField(sorted []fieldShape, name string) (int, bool) {
	return slices.BinarySearchFunc(sorted, name, func(f fieldShape, name string) int { return strings.Compare(f.name, name) })
}

func (o *objectShape) property(name string) (spec.Schema, bool) {
	if prop, ok := o.declared.properties[name]; ok {
		return prop, true
	}
	if plain, ok := apiservercel.Unescape(name); ok && plain != name {
		prop, ok := o.declared.properties[plain]
		return prop, ok
	}
	return spec.Schema{}, false
}

// fieldNames is sorted.
func (s *shape) fieldNames() []string {
	if s.kindOf() != ofObject {
		return nil
	}
	if s.object.declared.properties != nil {
		return slices.Sorted(maps.Keys(s.object.declared.properties))
	}
	var names []string
	if fields := s.object.fields.Load(); fields != nil {
		for _, f := range *fields {
			names = append(names, f.name)
		}
	}
	return names
}

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

// hasNoFields reports whether a schema forbids all fields. One that only names none may allow them: published schemas
// describe free-form objects so.
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

// scalarUnion recognizes unions such as string or number: published schemas describe quantities by them.
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
