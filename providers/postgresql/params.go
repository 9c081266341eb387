package postgresql

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A creation has the parameters of forProvider, and initProvider's for fields that forProvider leaves unset.
func mergeInit[P any](init, params P) (P, error) {
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

func anySlice(list []string) []any {
	out := make([]any, len(list))
	for i, text := range list {
		out[i] = text
	}
	return out
}

// maxSettings limits the parameters in a Role's status: a role can set any number for itself.
const maxSettings = 64

// It is for an unstructured object, limited to maxSettings.
func anyMap(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if len(out) < maxSettings {
			out[key] = truncate(m[key])
		}
	}
	return out
}

func diffText(what string, is, wanted any) string {
	return fmt.Sprintf("%s is %s, and should be %s", what, truncate(fmt.Sprint(is)), truncate(fmt.Sprint(wanted)))
}

// maxText limits texts from a server: they are stored in objects, which have a size limit.
const maxText = 1000

func truncate(text string) string {
	if len(text) > maxText {
		return strings.ToValidUTF8(text[:maxText], "") + " …"
	}
	return text
}

type truncatedError struct{ error }

func (e truncatedError) Error() string { return truncate(e.error.Error()) }

func (e truncatedError) Unwrap() error { return e.error }

func valueOr[T any](p *T, def T) T {
	if p != nil {
		return *p
	}
	return def
}
