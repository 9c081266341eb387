package patchandtransform

import (
	"cmp"
	"errors"
	"fmt"
	gomath "math"
	"math/big"
)

type transform struct {
	Type    string           `json:"type"`
	Math    *math            `json:"math"`
	Map     map[string]any   `json:"map"`
	Match   *match           `json:"match"`
	String  *stringTransform `json:"string"`
	Convert *convert         `json:"convert"`
}

type math struct {
	Type     string `json:"type"`
	Multiply *int64 `json:"multiply"`
	ClampMin *int64 `json:"clampMin"`
	ClampMax *int64 `json:"clampMax"`
}

type match struct {
	Patterns      []pattern `json:"patterns"`
	FallbackValue any       `json:"fallbackValue"`
	FallbackTo    string    `json:"fallbackTo"`
}

type pattern struct {
	Type    string  `json:"type"`
	Literal *string `json:"literal"`
	Regexp  *string `json:"regexp"`
	Result  any     `json:"result"`
}

// apply applies transforms in order. Values have the types of unstructured objects, except
// that all numbers in the result of a map, a match or a conversion from JSON are float64.
func apply(transforms []transform, value any) (any, error) {
	for i := range transforms {
		t := &transforms[i]
		out, err := t.apply(value)
		if err != nil {
			return nil, fmt.Errorf("transform at index %d returned error: %s transform could not resolve: %w", i, t.Type, err)
		}
		if text, ok := out.(string); ok && len(text) > maxText {
			return nil, fmt.Errorf("the result of transform at index %d has %d bytes, over the limit of %d", i, len(text), maxText)
		}
		value = out
	}
	return value, nil
}

func (t *transform) apply(value any) (any, error) {
	switch t.Type {
	case "math":
		return t.Math.apply(value)
	case "map":
		return applyMap(t.Map, value)
	case "match":
		return t.Match.apply(value)
	case "string":
		return t.String.apply(value)
	case "convert":
		return t.Convert.apply(value)
	default:
		return nil, fmt.Errorf("transform type %s is not supported", t.Type)
	}
}

// apply multiplies or clamps an integer or a float. The type stays the same, except that a
// clamped float becomes the limit, which is an integer.
func (m *math) apply(value any) (any, error) {
	switch value.(type) {
	case int64, float64:
	default:
		return nil, fmt.Errorf("input is required to be a number for math transformer, got %T", value)
	}
	switch m.Type {
	case "Multiply":
		return multiply(value, *m.Multiply), nil
	case "ClampMin":
		if compare(value, *m.ClampMin) < 0 {
			return *m.ClampMin, nil
		}
	case "ClampMax":
		if compare(value, *m.ClampMax) > 0 {
			return *m.ClampMax, nil
		}
	}
	return value, nil
}

// multiply returns an int64 if the product of two integers fits, and otherwise a float64.
func multiply(value any, factor int64) any {
	whole, ok := value.(int64)
	if !ok {
		return value.(float64) * float64(factor)
	}
	p := new(big.Int).Mul(big.NewInt(whole), big.NewInt(factor))
	if p.IsInt64() {
		return p.Int64()
	}
	f, _ := new(big.Float).SetInt(p).Float64()
	return f
}

// compare compares a number, without its fraction, with an integer.
func compare(value any, with int64) int {
	if whole, ok := value.(int64); ok {
		return cmp.Compare(whole, with)
	}
	f := gomath.Trunc(value.(float64))
	if f >= -int64Overflow && f < int64Overflow {
		return cmp.Compare(int64(f), with)
	}
	return cmp.Compare(f, 0)
}

func applyMap(pairs map[string]any, value any) (any, error) {
	key, ok := value.(string)
	if !ok {
		return nil, fmt.Errorf("type %T is not supported for map transform", value)
	}
	found, ok := pairs[key]
	switch {
	case !ok:
		return nil, fmt.Errorf("key %s is not found in map", key)
	case found == nil:
		return nil, fmt.Errorf("value for key %s is null", key)
	}
	return toFloats(found), nil
}

func (m *match) apply(value any) (any, error) {
	for i := range m.Patterns {
		p := &m.Patterns[i]
		text, ok := value.(string)
		if !ok {
			return nil, fmt.Errorf("cannot match pattern at index %d: unsupported input type '%T'", i, value)
		}
		matches, err := p.matches(text)
		if err != nil {
			return nil, fmt.Errorf("cannot match pattern at index %d: %w", i, err)
		}
		if matches {
			return toFloats(p.Result), nil
		}
	}
	switch {
	case m.FallbackTo == "Input" && m.FallbackValue != nil:
		return nil, errors.New("cannot fall back to both: fallbackTo is Input, and there is a fallbackValue")
	case m.FallbackTo == "Input":
		return value, nil
	}
	return toFloats(m.FallbackValue), nil
}

func (p *pattern) matches(text string) (bool, error) {
	if p.Type != "regexp" {
		return text == *p.Literal, nil
	}
	re, err := compile(*p.Regexp)
	if err != nil {
		return false, err
	}
	return re.Matches(text)
}

// toFloats returns a copy of a value in which all numbers are float64, as encoding/json
// decodes them.
func toFloats(value any) any {
	switch v := value.(type) {
	case int64:
		return float64(v)
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, item := range v {
			out[key] = toFloats(item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = toFloats(item)
		}
		return out
	default:
		return v
	}
}
