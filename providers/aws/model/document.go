package model

import (
	"bytes"
	"encoding/json"
	"slices"
)

// sameDocument compares JSON documents. Each may be in a string or not. In IAM policies, which have a
// Statement, one value stands for a list of one, and the order of lists has no meaning.
func sameDocument(a, b any) bool {
	left, ok := document(a)
	right, both := document(b)
	return ok && both && bytes.Equal(encode(left), encode(right))
}

func document(value any) (any, bool) {
	if raw, isString := value.(string); isString {
		if raw == "" || raw[0] != '{' && raw[0] != '[' {
			return nil, false
		}
		var err error
		if value, err = decode([]byte(raw)); err != nil {
			return nil, false
		}
	}
	switch v := value.(type) {
	case map[string]any:
		if _, isPolicy := v["Statement"]; isPolicy {
			return normalPolicy(v), true
		}
		return v, true
	case []any:
		return v, true
	}
	return nil, false
}

// Lists are sorted, and one value stands for a list of one.
func normalPolicy(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, item := range v {
			out[key] = normalPolicy(item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = normalPolicy(item)
		}
		if len(out) == 1 {
			return out[0]
		}
		slices.SortFunc(out, func(a, b any) int { return bytes.Compare(encode(a), encode(b)) })
		return out
	}
	if s, ok := text(value); ok {
		return s // conditions have "true" and true
	}
	return value
}

// Keys are sorted.
func encode(value any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		panic("model: " + err.Error()) // decoded JSON can be encoded
	}
	return bytes.TrimSpace(b.Bytes())
}
