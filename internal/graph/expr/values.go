package expr

import (
	"encoding/base64"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

// wrap returns JSON as a CEL value of the type that the schema says, without copying: maps
// and lists are wrapped, and their contents only when they are read. A value that
// contradicts its schema is wrapped by its own type.
func wrap(v any, s *shape, p objectPart, t *trail) ref.Val {
	switch v := v.(type) {
	case nil:
		return types.NullValue
	case string:
		return text(v, s)
	case bool:
		return types.Bool(v)
	case int64:
		return integer(v, s)
	case float64:
		return number(v, s)
	case map[string]any:
		if k := s.kindOf(); k != ofObject && k != ofMap {
			s = nil
		}
		return &mapping{m: v, shape: s, part: p, trail: t}
	case []any:
		if s.kindOf() != ofList {
			s = nil
		}
		return &sequence{items: v, shape: s, part: p, trail: t}
	case int:
		return integer(int64(v), s)
	case int32:
		return integer(int64(v), s)
	default:
		return types.DefaultTypeAdapter.NativeToValue(v)
	}
}

func integer(v int64, s *shape) ref.Val {
	if s.kindOf() == ofNumber {
		return types.Double(v)
	}
	return types.Int(v)
}

func number(v float64, s *shape) ref.Val {
	// Decoders that don't know the schema read 3 as 3.0.
	if s.kindOf() == ofInteger && v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		return types.Int(int64(v))
	}
	return types.Double(v)
}

func text(v string, s *shape) ref.Val {
	switch s.kindOf() {
	case ofBytes:
		if raw, err := base64.StdEncoding.DecodeString(v); err == nil {
			return types.Bytes(raw)
		}
		return types.NewErr(notBase64)
	case ofDuration:
		d, err := strfmt.ParseDuration(v)
		if err != nil {
			return types.WrapErr(err)
		}
		return types.Duration{Duration: d}
	case ofTimestamp:
		return timestamp(v, s)
	default:
		return types.String(v)
	}
}

func timestamp(v string, s *shape) ref.Val {
	if s.schemaTraits().format == "date" {
		day, err := time.Parse(time.DateOnly, v)
		if err != nil {
			return types.WrapErr(err)
		}
		return types.Timestamp{Time: day}
	}
	moment, err := strfmt.ParseDateTime(v)
	if err != nil {
		return types.WrapErr(err)
	}
	return types.Timestamp{Time: time.Time(moment)}
}

// mapping is a JSON object: the value of an object's or of a map's schema.
type mapping struct {
	m     map[string]any
	shape *shape
	part  objectPart
	trail *trail
}

func (v *mapping) shown() map[string]any { return v.part.shownFields(v.m) }

// JSON returns the wrapped JSON without its hidden entries.
func (v *mapping) JSON() any { return v.shown() }

// Value returns the wrapped JSON without its hidden entries.
func (v *mapping) Value() any { return v.shown() }

// Type is CEL's map, for objects too.
func (v *mapping) Type() ref.Type { return types.MapType }

// Find looks up a key. A null field of an object counts as absent, as everywhere in
// Kubernetes; a null in a map is a value.
func (v *mapping) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key), false
	}
	value, ok := v.lookup(string(name))
	switch {
	case !ok:
		v.trail.recordMiss(Step{Name: string(name)})
		return nil, false
	case value == nil:
		v.trail.recordNull(Step{Name: string(name)})
	}
	below, _ := v.shape.field(string(name))
	return wrap(value, below, v.part.field(string(name)), v.trail.child(Step{Name: string(name)})), true
}

// lookup returns the JSON at a key, which for an object may be escaped.
func (v *mapping) lookup(name string) (any, bool) {
	value, ok := v.m[name]
	if v.shape.kindOf() != ofObject {
		return value, ok
	}
	if !ok {
		if plain, escaped := apiservercel.Unescape(name); escaped {
			value = v.m[plain]
		}
	}
	return value, value != nil
}

// Get returns the value of a key, or an error if it is absent.
func (v *mapping) Get(key ref.Val) ref.Val {
	value, ok := v.Find(key)
	switch {
	case ok:
		return value
	case value != nil:
		return value
	default:
		return types.NewErr("no such key: %v", key.Value())
	}
}

// Contains reports whether the key exists.
func (v *mapping) Contains(key ref.Val) ref.Val {
	value, ok := untracked(v).Find(key)
	if !ok && value != nil {
		return value
	}
	return types.Bool(ok)
}

// Size counts the keys that are shown.
func (v *mapping) Size() ref.Val { return types.Int(len(v.shown())) }

// Iterator iterates over the sorted keys that are shown, so lists made from maps are always the same.
func (v *mapping) Iterator() iterator {
	return &keys{sorted: sortedKeys(v.shown())}
}

// Equal compares with any map, key by key.
func (v *mapping) Equal(other ref.Val) ref.Val { return equalMaps(v, other) }

// ConvertToType converts to a map, or to the type itself.
func (v *mapping) ConvertToType(t ref.Type) ref.Val { return toType(v, t) }

// ConvertToNative converts to Go types that can hold any JSON object.
func (v *mapping) ConvertToNative(t reflect.Type) (any, error) {
	if reflect.TypeOf(v.m).AssignableTo(t) {
		return v.shown(), nil
	}
	return types.DefaultTypeAdapter.NativeToValue(v.shown()).ConvertToNative(t)
}

type sequence struct {
	items []any
	shape *shape
	part  objectPart
	trail *trail
}

func (v *sequence) shown() []any { return v.part.shownItems(v.items) }

// JSON returns the wrapped JSON without its hidden entries.
func (v *sequence) JSON() any { return v.shown() }

// Value returns the wrapped JSON without its hidden entries.
func (v *sequence) Value() any { return v.shown() }

// Type is CEL's list.
func (v *sequence) Type() ref.Type { return types.ListType }

// Get returns an item.
func (v *sequence) Get(index ref.Val) ref.Val {
	i, err := types.IndexOrError(index)
	if err != nil {
		return types.WrapErr(err)
	}
	if i < 0 || i >= len(v.items) {
		return types.NewErr("index out of bounds: %d", i)
	}
	return v.at(i)
}

func (v *sequence) at(i int) ref.Val {
	below, _ := v.shape.item()
	if v.items[i] == nil {
		v.trail.recordNull(Step{Index: i})
	}
	return wrap(v.items[i], below, v.part.item(), v.trail.child(Step{Index: i}))
}

// Contains reports whether an item equals the value.
func (v *sequence) Contains(value ref.Val) ref.Val {
	for i := range v.items {
		if types.Equal(v.at(i), value) == types.True {
			return types.True
		}
	}
	return types.False
}

// Size counts the items.
func (v *sequence) Size() ref.Val { return types.Int(len(v.items)) }

// Add returns a list with the items of both lists.
func (v *sequence) Add(other ref.Val) ref.Val { return concatLists(v, other) }

// Iterator iterates over the items.
func (v *sequence) Iterator() iterator { return &items{list: v} }

// Equal compares with any list, item by item.
func (v *sequence) Equal(other ref.Val) ref.Val { return equalLists(v, other) }

// ConvertToType converts to a list, or to the type itself.
func (v *sequence) ConvertToType(t ref.Type) ref.Val { return toType(v, t) }

// ConvertToNative converts to Go types that can hold any JSON array.
func (v *sequence) ConvertToNative(t reflect.Type) (any, error) {
	if reflect.TypeOf(v.items).AssignableTo(t) {
		return v.shown(), nil
	}
	return types.DefaultTypeAdapter.NativeToValue(v.shown()).ConvertToNative(t)
}

func toType(v ref.Val, t ref.Type) ref.Val {
	switch t {
	case v.Type():
		return v
	case types.TypeType:
		return v.Type().(ref.Val)
	}
	return types.WrapErr(fmt.Errorf("a %s cannot be converted to %s", v.Type().TypeName(), t.TypeName()))
}
