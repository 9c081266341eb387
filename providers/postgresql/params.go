package postgresql

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
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

// mostShown is how many of a role's settings are shown: it can give itself any number.
const mostShown = 64

// textMap is a map as an unstructured object holds it, as far as that has room.
func textMap(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if len(out) < mostShown {
			out[key] = brief(m[key])
		}
	}
	return out
}

// differs tells of one difference.
func differs(what string, is, wanted any) string {
	return fmt.Sprintf("%s is %s, and is to be %s", what, brief(fmt.Sprint(is)), brief(fmt.Sprint(wanted)))
}

// mostTold bounds how much is told of what others have written: all that is told is
// kept in objects, which can't be large.
const mostTold = 1000

// brief is a text, or its beginning.
func brief(text string) string {
	if len(text) > mostTold {
		return strings.ToValidUTF8(text[:mostTold], "") + " …"
	}
	return text
}

// briefError is an error that others have worded, told briefly.
type briefError struct{ error }

func (e briefError) Error() string { return brief(e.error.Error()) }

func (e briefError) Unwrap() error { return e.error }

// said is what a pointer says, or else something else.
func said[T any](p *T, otherwise T) T {
	if p != nil {
		return *p
	}
	return otherwise
}
