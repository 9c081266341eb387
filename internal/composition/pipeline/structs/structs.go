// Package structs converts objects as Kubernetes holds them to the protobuf structs of
// the function protocol, and back.
//
// A struct's numbers are all floating-point, while Kubernetes distinguishes 1 from 1.0:
// whole numbers come back as int64, all others as float64. An integer beyond 2⁵³ may lose
// its last digits in a struct; that is a limit of the protocol.
//
// Pure: it decides from values alone.
package structs

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/structpb"
)

// MaxDepth is how deeply values may be nested. Real objects are far below it; it keeps
// recursive code from overflowing the stack.
const MaxDepth = 200

// Errors of the conversion. A returned error wraps one of these and names the field.
var (
	// ErrDepth is for a value that is nested more deeply than MaxDepth.
	ErrDepth = errors.New("nested too deeply")
	// ErrNumber is for a number that is infinite or NaN.
	ErrNumber = errors.New("not a finite number")
	// ErrText is for a string that is not valid UTF-8.
	ErrText = errors.New("not valid UTF-8")
	// ErrType is for a value of a Go type without a JSON form.
	ErrType = errors.New("not a JSON type")
)

// ToStruct converts an object to a struct. The object's values may have the types that
// JSON and YAML decoders and unstructured objects use. A nil object becomes a nil struct.
func ToStruct(object map[string]any) (*structpb.Struct, error) {
	if object == nil {
		return nil, nil
	}
	return toStruct(object, 0)
}

// ToObject converts a struct to an object, which shares nothing with it. A nil struct
// becomes a nil object.
func ToObject(s *structpb.Struct) (map[string]any, error) {
	if s == nil {
		return nil, nil
	}
	return fromStruct(s, 0)
}

// FromJSON makes a struct from a JSON object.
func FromJSON(data []byte) (*structpb.Struct, error) {
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, err
	}
	return ToStruct(object)
}

func toStruct(object map[string]any, depth int) (*structpb.Struct, error) {
	if depth > MaxDepth {
		return nil, ErrDepth
	}
	fields := make(map[string]*structpb.Value, len(object))
	for key, v := range object {
		if !utf8.ValidString(key) {
			return nil, fmt.Errorf("key %q: %w", key, ErrText)
		}
		value, err := toValue(v, depth+1)
		if err != nil {
			return nil, under(key, err)
		}
		fields[key] = value
	}
	return &structpb.Struct{Fields: fields}, nil
}

func toValue(v any, depth int) (*structpb.Value, error) {
	switch v := v.(type) {
	case nil:
		return structpb.NewNullValue(), nil
	case bool:
		return structpb.NewBoolValue(v), nil
	case string:
		if !utf8.ValidString(v) {
			return nil, ErrText
		}
		return structpb.NewStringValue(v), nil
	case map[string]any:
		s, err := toStruct(v, depth)
		return structpb.NewStructValue(s), err
	case []any:
		return toList(v, depth)
	default:
		number, ok := toNumber(v)
		if !ok {
			return nil, fmt.Errorf("%T: %w", v, ErrType)
		}
		if math.IsNaN(number) || math.IsInf(number, 0) {
			return nil, ErrNumber
		}
		return structpb.NewNumberValue(number), nil
	}
}

func toList(list []any, depth int) (*structpb.Value, error) {
	if depth > MaxDepth {
		return nil, ErrDepth
	}
	values := make([]*structpb.Value, len(list))
	for i, v := range list {
		value, err := toValue(v, depth+1)
		if err != nil {
			return nil, under(fmt.Sprintf("[%d]", i), err)
		}
		values[i] = value
	}
	return structpb.NewListValue(&structpb.ListValue{Values: values}), nil
}

func toNumber(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	case int:
		return float64(v), true
	case int32:
		return float64(v), true
	case uint64:
		return float64(v), true
	case float32:
		return float64(v), true
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	default:
		return 0, false
	}
}
