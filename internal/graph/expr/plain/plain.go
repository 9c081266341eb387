// Package plain turns CEL values into the values that decoded JSON consists of:
// map[string]any, []any, string, int64, float64, bool and nil.
//
// Pure: it decides from values alone.
package plain

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

type absent struct{}

func (absent) String() string { return "absent" }

// Absent is an absent optional value. It never occurs inside a map or a list: the key or
// the item is left out instead.
var Absent any = absent{}

// Source is a CEL value that wraps JSON.
type Source interface{ JSON() any }

// ErrSize is the error of a result that exceeds the size limit.
var ErrSize = errors.New("the result is too large")

// FromCEL returns v as JSON. The result shares nothing mutable with v. Times are
// rendered in RFC 3339, durations as Go formats them, bytes in base64 and the
// types of the Kubernetes libraries in their string form.
//
// size bounds the approximate bytes of the result: in CEL, a short expression can contain
// a value many times at no cost. A larger result is ErrSize.
func FromCEL(v ref.Val, size int) (any, error) {
	return (&converter{remaining: size}).value(v)
}

// converter counts the bytes that may still be written.
type converter struct{ remaining int }

// overhead is how many bytes a value counts besides its text.
const overhead = 8

func (w *converter) value(v ref.Val) (any, error) {
	if err := w.spend(overhead); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case nil:
		return nil, nil
	case Source:
		return w.copy(v.JSON())
	case types.Null:
		return nil, nil
	case Omitted:
		return Absent, nil
	case types.String:
		return string(v), w.spend(len(v))
	case types.Bytes:
		return base64.StdEncoding.EncodeToString(v), w.spend(len(v))
	case *types.Optional:
		if !v.HasValue() {
			return Absent, nil
		}
		return w.value(v.GetValue())
	case *types.Err:
		return nil, v
	case traits.Mapper:
		return w.mapping(v)
	case traits.Lister:
		return w.list(v)
	default:
		return scalar(v)
	}
}

func (w *converter) spend(n int) error {
	if w.remaining -= n; w.remaining < 0 {
		return ErrSize
	}
	return nil
}

func (w *converter) copy(v any) (any, error) {
	if err := w.spend(Size(v)); err != nil {
		return nil, err
	}
	return Copy(v), nil
}

// Size is the approximate number of bytes of a value as JSON.
func Size(v any) int {
	n := overhead
	switch v := v.(type) {
	case string:
		n += len(v)
	case map[string]any:
		for key, value := range v {
			n += len(key) + Size(value)
		}
	case []any:
		for _, value := range v {
			n += Size(value)
		}
	}
	return n
}

func scalar(v ref.Val) (any, error) {
	switch v := v.(type) {
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return int64(v), nil
	case types.Uint:
		if v > math.MaxInt64 {
			return nil, fmt.Errorf("%d is too large: JSON objects hold integers up to %d", uint64(v), math.MaxInt64)
		}
		return int64(v), nil
	case types.Double:
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, fmt.Errorf("JSON cannot represent the number %v", float64(v))
		}
		return float64(v), nil
	case types.Timestamp:
		return v.UTC().Format(time.RFC3339Nano), nil
	case types.Duration:
		return v.Duration.String(), nil
	default:
		return libraryValue(v)
	}
}

func (w *converter) mapping(m traits.Mapper) (any, error) {
	out := map[string]any{}
	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		name, ok := key.(types.String)
		if !ok {
			return nil, fmt.Errorf("the keys of a map in JSON are strings, not %s", key.Type().TypeName())
		}
		if err := w.spend(len(name)); err != nil {
			return nil, err
		}
		value, err := w.value(m.Get(key))
		if err != nil {
			return nil, err
		}
		if value != Absent {
			out[string(name)] = value
		}
	}
	return out, nil
}

func (w *converter) list(l traits.Lister) (any, error) {
	out := []any{}
	for it := l.Iterator(); it.HasNext() == types.True; {
		value, err := w.value(it.Next())
		if err != nil {
			return nil, err
		}
		if value != Absent {
			out = append(out, value)
		}
	}
	return out, nil
}

func libraryValue(v ref.Val) (any, error) {
	switch v := v.(type) {
	case apiservercel.Quantity:
		return v.Quantity.String(), nil
	case *apiservercel.Quantity: // the result of its add and sub
		return v.Quantity.String(), nil
	case apiservercel.IP:
		return v.Addr.String(), nil
	case apiservercel.CIDR:
		return v.Prefix.String(), nil
	case apiservercel.URL:
		return v.URL.String(), nil
	case apiservercel.Semver:
		return v.Version.String(), nil
	}
	return nil, fmt.Errorf("a value of type %s has no JSON form", v.Type().TypeName())
}

// Copy returns a deep copy of JSON. Numbers become int64 or float64.
func Copy(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if v == nil {
			return nil
		}
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[key] = Copy(value)
		}
		return out
	case []any:
		if v == nil {
			return nil
		}
		out := make([]any, len(v))
		for i, value := range v {
			out[i] = Copy(value)
		}
		return out
	case int:
		return int64(v)
	case int32:
		return int64(v)
	case float32:
		return float64(v)
	default:
		return v
	}
}
