// Package structs converts objects as Kubernetes holds them to the protobuf structs of
// the function protocol, and back.
//
// A struct's numbers are all floating-point, while Kubernetes tells 1 from 1.0: whole
// numbers come back as int64, all others as float64. An integer beyond 2⁵³ may lose its
// last digits on the way into a struct, as it does for everyone who speaks the protocol.
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

// Depth is how deeply values may be nested. No kind of object comes near it, and what
// walks through an object should not have to fear for its stack.
const Depth = 200

// What a value can be that an object cannot hold. Errors wrap one of these and name the
// field.
var (
	// ErrDepth says that a value is nested more deeply than Depth.
	ErrDepth = errors.New("nested too deeply")
	// ErrNumber says that a number is infinite or not a number.
	ErrNumber = errors.New("not a finite number")
	// ErrText says that a text is not valid UTF-8.
	ErrText = errors.New("not valid UTF-8")
	// ErrType says that a value is of a type that objects do not hold.
	ErrType = errors.New("of a type that objects do not hold")
)

// To makes a struct of an object. The object's values may be what JSON or YAML decoders
// make and what Kubernetes' unstructured objects hold. A nil object is a nil struct.
func To(object map[string]any) (*structpb.Struct, error) {
	if object == nil {
		return nil, nil
	}
	return toStruct(object, 0)
}

// From makes an object of a struct. It shares nothing with the struct. A nil struct is
// a nil object.
func From(s *structpb.Struct) (map[string]any, error) {
	if s == nil {
		return nil, nil
	}
	return fromStruct(s, 0)
}

// Text makes a struct of an object in JSON.
func Text(data []byte) (*structpb.Struct, error) {
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, err
	}
	return To(object)
}

func toStruct(object map[string]any, depth int) (*structpb.Struct, error) {
	if depth > Depth {
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
	if depth > Depth {
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

// toNumber knows the numbers of decoders, and of objects that Go code has built.
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
