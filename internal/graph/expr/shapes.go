package expr

import (
	"reflect"
	"strconv"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// shapes holds the shapes of an environment and of those that extend it. Equal
// schemas share one shape, and so one CEL type: the pod templates of two
// Deployments can be compared with each other.
type shapes struct {
	mu         sync.RWMutex
	byName     map[string]*shape
	byRoot     map[*spec.Schema]*shape
	byLikeness map[likeness][]*shape
	// byFields are the shapes composed of other shapes, by their fields.
	byFields map[string]*shape
}

// likeness has cheap properties that are equal for equal schemas.
type likeness struct {
	fields, required int
	description      string
}

func newShapes() *shapes {
	return &shapes{byName: map[string]*shape{}, byRoot: map[*spec.Schema]*shape{}, byLikeness: map[likeness][]*shape{}, byFields: map[string]*shape{}}
}

// of returns the shape of a schema. An object's CEL type is named after name.
func (r *shapes) of(s *spec.Schema, name string) *shape {
	if s == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.byRoot[s]; ok {
		return known
	}
	made := r.make(s, name)
	r.byRoot[s] = made
	return made
}

func (r *shapes) fieldOf(parent *objectShape, name string, s *spec.Schema) *shape {
	r.mu.Lock()
	defer r.mu.Unlock()
	var known []fieldShape
	if fields := parent.fields.Load(); fields != nil {
		known = *fields
	}
	at, found := findField(known, name)
	if found {
		return known[at].shape
	}
	made := r.make(s, parent.name+"."+name)
	fields := make([]fieldShape, 0, len(known)+1)
	fields = append(append(append(fields, known[:at]...), fieldShape{name, made}), known[at:]...)
	parent.fields.Store(&fields)
	return made
}

func (r *shapes) make(s *spec.Schema, name string) *shape {
	s = unwrapAllOf(s)
	out := &shape{kind: kindOfSchema(s), traits: traitsOf(s)}
	switch out.kind {
	case ofAnything:
		return nil
	case ofObject:
		return r.ofObject(s, name)
	case ofMap:
		out.elem = r.elem(additionalSchema(s), name+".@value")
		out.cel = cel.MapType(cel.StringType, out.elem.celType())
	case ofList:
		if s.Items != nil && s.Items.Schema != nil {
			out.elem = r.elem(s.Items.Schema, name+".@item")
		}
		out.cel = cel.ListType(out.elem.celType())
	default:
		if out.traits == nil {
			return scalarShapes[out.kind]
		}
		out.cel = scalarTypes[out.kind]
	}
	return out
}

func (r *shapes) elem(s *spec.Schema, name string) *shape {
	if s == nil {
		return nil
	}
	return r.make(s, name)
}

// ofObject returns the existing shape of an equal object schema, or registers one.
func (r *shapes) ofObject(s *spec.Schema, name string) *shape {
	declared := objectTraitsOf(s)
	like := likeness{fields: len(s.Properties), required: len(s.Required), description: s.Description}
	for _, other := range r.byLikeness[like] {
		if reflect.DeepEqual(other.object.declared, declared) {
			return other
		}
	}
	made := &shape{kind: ofObject, object: &objectShape{declared: declared, in: r}}
	r.name(made, name)
	made.object.open = hasExtension(s, "x-kubernetes-preserve-unknown-fields") || hasExtension(s, "x-kubernetes-embedded-resource") ||
		s.AdditionalProperties != nil && s.AdditionalProperties.Allows && s.AdditionalProperties.Schema == nil
	r.byLikeness[like] = append(r.byLikeness[like], made)
	made.elem = r.elem(additionalSchema(s), name+".@value")
	return made
}

// name gives the shape of an object a CEL type with a unique name.
func (r *shapes) name(made *shape, name string) {
	made.object.name = name
	for n := 2; r.byName[typeNameOf(made.object.name)] != nil; n++ {
		made.object.name = name + "@" + strconv.Itoa(n)
	}
	made.cel = cel.ObjectType(typeNameOf(made.object.name))
	r.byName[made.cel.TypeName()] = made
}

// typeNameOf returns a type name that is not a valid path: CEL would resolve a path such as
// vpc.status to a type of that name.
func typeNameOf(path string) string { return "object(" + path + ")" }

func (r *shapes) byTypeName(name string) *shape {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.byName[name]
}

// unwrapAllOf unwraps an allOf with one schema: published schemas add a description or a default to a shared
// definition by one.
func unwrapAllOf(s *spec.Schema) *spec.Schema {
	for len(s.Type) == 0 && len(s.Properties) == 0 && len(s.AllOf) == 1 && s.Ref.GetURL() == nil {
		s = &s.AllOf[0]
	}
	return s
}

func additionalSchema(s *spec.Schema) *spec.Schema {
	if s.AdditionalProperties == nil {
		return nil
	}
	return s.AdditionalProperties.Schema
}

var scalarTypes = map[kind]*cel.Type{
	ofString: cel.StringType, ofBytes: cel.BytesType, ofDuration: cel.DurationType, ofTimestamp: cel.TimestampType,
	ofInteger: cel.IntType, ofNumber: cel.DoubleType, ofBoolean: cel.BoolType,
	ofIntOrString: cel.DynType, ofQuantity: cel.DynType,
}

// scalarShapes are the shapes of scalars whose schemas say nothing else: most fields, so they are shared.
var scalarShapes = func() map[kind]*shape {
	out := map[kind]*shape{}
	for kind, typ := range scalarTypes {
		out[kind] = &shape{kind: kind, cel: typ}
	}
	return out
}()

// provider is CEL's type provider for the types of shapes. It delegates all other types.
type provider struct {
	types.Provider
	shapes *shapes
}

func (p provider) FindStructType(name string) (*types.Type, bool) {
	if s := p.shapes.byTypeName(name); s != nil {
		return types.NewTypeTypeWithParam(s.cel), true
	}
	return p.Provider.FindStructType(name)
}

func (p provider) FindStructFieldNames(name string) ([]string, bool) {
	if s := p.shapes.byTypeName(name); s != nil {
		return s.fieldNames(), true
	}
	return p.Provider.FindStructFieldNames(name)
}

func (p provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	s := p.shapes.byTypeName(name)
	if s == nil {
		return p.Provider.FindStructFieldType(name, field)
	}
	f, ok := s.field(field)
	if !ok {
		return nil, false
	}
	return &types.FieldType{Type: f.celType()}, true
}
