package patchandtransform

import "fmt"

// transform makes another value of a value.
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

// apply runs transforms one after the other. Values are as Kubernetes holds them, except
// that all numbers in what a map, a match or a conversion from JSON gives are float64.
func apply(transforms []transform, value any) (any, error) {
	for i := range transforms {
		t := &transforms[i]
		out, err := t.apply(value)
		if err != nil {
			return nil, fmt.Errorf("transform at index %d returned error: %s transform could not resolve: %w", i, t.Type, err)
		}
		if text, ok := out.(string); ok && len(text) > maxText {
			return nil, fmt.Errorf("transform at index %d makes a text of %d bytes, of %d allowed", i, len(text), maxText)
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
		return lookUp(t.Map, value)
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

// apply multiplies, or clamps, an integer or a float; both stay what they are, unless a
// float is clamped: then it becomes the limit, which is an integer.
func (m *math) apply(value any) (any, error) {
	var whole int64
	switch v := value.(type) {
	case int64:
		if m.Type == "Multiply" {
			return v * *m.Multiply, nil
		}
		whole = v
	case float64:
		if m.Type == "Multiply" {
			return v * float64(*m.Multiply), nil
		}
		whole = int64(v)
	default:
		return nil, fmt.Errorf("input is required to be a number for math transformer, got %T", value)
	}
	switch {
	case m.Type == "ClampMin" && whole < *m.ClampMin:
		return *m.ClampMin, nil
	case m.Type == "ClampMax" && whole > *m.ClampMax:
		return *m.ClampMax, nil
	default:
		return value, nil
	}
}

func lookUp(pairs map[string]any, value any) (any, error) {
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
	return floats(found), nil
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
			return floats(p.Result), nil
		}
	}
	if m.FallbackTo == "Input" {
		return value, nil
	}
	return floats(m.FallbackValue), nil
}

func (p *pattern) matches(text string) (bool, error) {
	if p.Type != "regexp" {
		return text == *p.Literal, nil
	}
	re, err := compile(*p.Regexp)
	if err != nil {
		return false, err
	}
	return re.MatchString(text), nil
}

// floats returns a copy of a value as a decoder of JSON makes it that knows no integers.
func floats(value any) any {
	switch v := value.(type) {
	case int64:
		return float64(v)
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, item := range v {
			out[key] = floats(item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = floats(item)
		}
		return out
	default:
		return v
	}
}
