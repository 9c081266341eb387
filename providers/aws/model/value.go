package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Decode reads a JSON object with the types that this package uses.
func Decode(raw []byte) (map[string]any, error) {
	value, err := decode(raw)
	if err != nil {
		return nil, err
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("expected a JSON object, not %T", value)
	}
	return object, nil
}

// Bounds of a JSON document, which may be the answer of any server: an empty object takes 2 bytes in it, and 50 times
// as much in memory.
const (
	maxValues = 100_000
	maxNested = 64
)

func checkSize(raw []byte) error {
	values, depth, inString := 1, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == ',':
			values++
		case c == '{', c == '[':
			values++
			depth++
		case c == '}', c == ']':
			depth--
		}
		if values > maxValues {
			return fmt.Errorf("the JSON value has more than %d values", maxValues)
		}
		if depth > maxNested {
			return fmt.Errorf("the JSON value has more than %d levels", maxNested)
		}
	}
	return nil
}

func decode(raw []byte) (any, error) {
	if err := checkSize(raw); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, fmt.Errorf("the JSON value is followed by more text")
	}
	return numbers(value), nil
}

func numbers(value any) any {
	switch v := value.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64() // an overflow is infinite
		if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return int64(f)
		}
		if math.IsInf(f, 0) {
			return v.String()
		}
		return f
	case map[string]any:
		for key, item := range v {
			v[key] = numbers(item)
		}
	case []any:
		for i, item := range v {
			v[i] = numbers(item)
		}
	}
	return value
}

// AWS leaves such values out of what it returns.
func isBlank(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case bool:
		return !v
	case []any:
		return len(v) == 0
	case map[string]any:
		for _, item := range v {
			if !isBlank(item) {
				return false
			}
		}
		return true
	}
	return false
}

// text returns a scalar as a string, as AWS does in identifiers and where it answers a string for a number.
func text(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	}
	return "", false
}

// The JSON types may differ.
func sameScalar(a, b any) bool {
	left, ok := text(a)
	right, both := text(b)
	if !ok || !both {
		return a == nil && b == nil
	}
	if left == right {
		return true
	}
	x, xErr := strconv.ParseFloat(left, 64)
	y, yErr := strconv.ParseFloat(right, 64)
	_, isString := a.(string)
	_, areStrings := b.(string)
	if xErr == nil && yErr == nil && !(isString && areStrings) { // "1.10" and "1.1" are two versions
		return x == y
	}
	return !(isString && areStrings) && strings.EqualFold(left, right)
}

// The path consists of object keys and array indexes.
func at(value any, path []any) (any, bool) {
	for _, step := range path {
		switch key := step.(type) {
		case string:
			object, _ := value.(map[string]any)
			below, ok := object[key]
			if !ok {
				return nil, false
			}
			value = below
		case int:
			array, ok := value.([]any)
			if !ok || key >= len(array) {
				return nil, false
			}
			value = array[key]
		}
	}
	return value, true
}
