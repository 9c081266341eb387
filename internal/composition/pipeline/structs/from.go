package structs

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/structpb"
)

func fromStruct(s *structpb.Struct, depth int) (map[string]any, error) {
	if depth > MaxDepth {
		return nil, ErrDepth
	}
	object := make(map[string]any, len(s.GetFields()))
	for key, value := range s.GetFields() {
		if !utf8.ValidString(key) {
			return nil, fmt.Errorf("key %q: %w", key, ErrText)
		}
		v, err := fromValue(value, depth+1)
		if err != nil {
			return nil, under(key, err)
		}
		object[key] = v
	}
	return object, nil
}

func fromValue(value *structpb.Value, depth int) (any, error) {
	switch kind := value.GetKind().(type) {
	case *structpb.Value_BoolValue:
		return kind.BoolValue, nil
	case *structpb.Value_NumberValue:
		return fromNumber(kind.NumberValue)
	case *structpb.Value_StringValue:
		if !utf8.ValidString(kind.StringValue) {
			return nil, ErrText
		}
		return kind.StringValue, nil
	case *structpb.Value_StructValue:
		return fromStruct(kind.StructValue, depth)
	case *structpb.Value_ListValue:
		if depth > MaxDepth {
			return nil, ErrDepth
		}
		list := make([]any, len(kind.ListValue.GetValues()))
		for i, value := range kind.ListValue.GetValues() {
			v, err := fromValue(value, depth+1)
			if err != nil {
				return nil, under(fmt.Sprintf("[%d]", i), err)
			}
			list[i] = v
		}
		return list, nil
	default: // null, or nothing at all
		return nil, nil
	}
}

// fromNumber returns whole numbers as int64, as Kubernetes' JSON decoder does.
func fromNumber(f float64) (any, error) {
	switch {
	case math.IsNaN(f), math.IsInf(f, 0):
		return nil, ErrNumber
	case f == math.Trunc(f) && f >= math.MinInt64 && f < math.MaxInt64: // the float above MaxInt64 is 2⁶³
		return int64(f), nil
	default:
		return f, nil
	}
}

// under adds the field of an error; callers add them from the innermost field outwards.
func under(field string, err error) error {
	if f, ok := err.(*fieldError); ok { //nolint:errorlint // only this package makes fieldErrors, and never wraps them
		f.path = append(f.path, field)
		return f
	}
	return &fieldError{path: []string{field}, err: err}
}

type fieldError struct {
	path []string // innermost field first
	err  error
}

func (e *fieldError) Error() string {
	var path strings.Builder
	for i := len(e.path) - 1; i >= 0; i-- {
		if path.Len() > 0 && !strings.HasPrefix(e.path[i], "[") {
			path.WriteByte('.')
		}
		path.WriteString(e.path[i])
		if path.Len() > maxPath {
			path.WriteString("…")
			break
		}
	}
	return path.String() + ": " + e.err.Error()
}

func (e *fieldError) Unwrap() error { return e.err }

// maxPath bounds the path in an error, in bytes.
const maxPath = 200
