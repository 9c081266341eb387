package postgresql

import (
	"encoding/json"
	"fmt"
)

// beginning is what a thing is made with: what is said for good, and for the rest
// what is said for its creation.
func beginning[P any](init, params P) (P, error) {
	var out P
	for _, layer := range []P{init, params} {
		raw, err := json.Marshal(layer)
		if err == nil {
			err = json.Unmarshal(raw, &out)
		}
		if err != nil {
			return out, fmt.Errorf("merge initProvider and forProvider: %w", err)
		}
	}
	return out, nil
}

// texts is a list as an unstructured object holds it.
func texts(list []string) []any {
	out := make([]any, len(list))
	for i, text := range list {
		out[i] = text
	}
	return out
}

// textMap is a map as an unstructured object holds it.
func textMap(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for key, value := range m {
		out[key] = value
	}
	return out
}

// differs tells of one difference.
func differs(what string, is, wanted any) string {
	return fmt.Sprintf("%s is %v, and is to be %v", what, is, wanted)
}

// said is what a pointer says, or else something else.
func said[T any](p *T, otherwise T) T {
	if p != nil {
		return *p
	}
	return otherwise
}
