package model

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// SecretRef stands in a desired state for a value of a Secret. It is a type of its own: no object that a user
// writes or that AWS returns is taken for one.
type SecretRef struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Key       string `json:"key,omitempty"`
	// ResourceVersion is the Secret's when it was last read. It tells that a value has changed.
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// MarshalJSON returns the form in digests and messages.
func (r SecretRef) MarshalJSON() ([]byte, error) {
	fields := map[string]string{"namespace": r.Namespace, "name": r.Name, "key": r.Key, "resourceVersion": r.ResourceVersion}
	maps.DeleteFunc(fields, func(_, value string) bool { return value == "" })
	return json.Marshal(map[string]any{"$secret": fields})
}

func secretOf(object map[string]any, name string) (SecretRef, bool) {
	ref, _ := object[name+secretSuffix].(map[string]any)
	text := func(key string) string {
		value, _ := ref[key].(string)
		return value
	}
	out := SecretRef{Namespace: text("namespace"), Name: text("name"), Key: text("key")}
	return out, out.Name != ""
}

func isSecretRef(value any) bool {
	_, ok := value.(SecretRef)
	return ok
}

// HasSecretRef reports whether a value is or contains a SecretRef.
func HasSecretRef(value any) bool {
	switch v := value.(type) {
	case SecretRef:
		return true
	case map[string]any:
		for _, item := range v {
			if HasSecretRef(item) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, HasSecretRef)
	}
	return false
}

// ReplaceSecretRefs returns a copy of a value. Each SecretRef is replaced by what replace returns for it and its path.
func ReplaceSecretRefs(value any, replace func(path []any, ref SecretRef) (any, error)) (any, error) {
	return replaceSecretRefs(nil, value, replace)
}

func replaceSecretRefs(path []any, value any, replace func([]any, SecretRef) (any, error)) (any, error) {
	var err error
	switch v := value.(type) {
	case SecretRef:
		return replace(path, v)
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if out[key], err = replaceSecretRefs(append(slices.Clone(path), key), v[key], replace); err != nil {
				return nil, err
			}
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			if out[i], err = replaceSecretRefs(append(slices.Clone(path), i), item, replace); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return value, nil
}

var unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")

// SetAt sets the value at a JSON pointer, RFC 6901, in place. What is above it must exist.
func SetAt(document any, pointer string, value any) error {
	steps := strings.Split(pointer, "/")
	if steps[0] != "" || len(steps) < 2 {
		return fmt.Errorf("%q is not the JSON pointer of a property", pointer)
	}
	at := document
	for i, step := range steps[1:] {
		isLast := i == len(steps)-2
		switch v := at.(type) {
		case map[string]any:
			step = unescapePointer.Replace(step)
			if isLast {
				v[step] = value
			}
			at = v[step]
		case []any:
			n, err := strconv.Atoi(step)
			if err != nil || n < 0 || n >= len(v) {
				return fmt.Errorf("there is no item %q of the JSON pointer %q", step, pointer)
			}
			if isLast {
				v[n] = value
			}
			at = v[n]
		default:
			return fmt.Errorf("the JSON pointer %q leads to nothing", pointer)
		}
	}
	return nil
}
