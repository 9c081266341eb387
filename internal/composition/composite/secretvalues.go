package composite

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// secretValues are the values of the Secrets that a pipeline was given. Functions are opaque: what
// they computed from a value is unknown. Texts and objects are searched for the values.
type secretValues struct {
	// values are sorted by length, the longest first, so that no part of a value remains.
	values []string
	parts  int
}

const (
	// minSecretValue is the length, in bytes, of the shortest value that is searched for: shorter
	// ones, such as a port, are parts of too many other texts.
	minSecretValue = 6
	// maxSecretValues bounds the values that are searched for.
	maxSecretValues = 1000
	// redactedValue replaces a value in a text.
	redactedValue = "(redacted: from a Secret)"
)

// add adds the data of a Secret: each value, its base64, the lines of a text and the strings of a
// JSON document.
func (v *secretValues) add(data map[string][]byte) {
	for _, raw := range data {
		text := string(raw)
		v.addText(text)
		v.addText(base64.StdEncoding.EncodeToString(raw))
		if strings.Contains(text, "\n") {
			for line := range strings.Lines(text) {
				v.addText(strings.TrimSpace(line))
			}
		}
		var document any
		if json.Unmarshal(raw, &document) == nil {
			v.addStrings(document)
		}
	}
	slices.SortFunc(v.values, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	v.values = slices.Compact(v.values)
}

func (v *secretValues) addText(text string) {
	if len(text) >= minSecretValue && v.parts < maxSecretValues {
		v.values, v.parts = append(v.values, text), v.parts+1
	}
}

func (v *secretValues) addStrings(document any) {
	switch d := document.(type) {
	case string:
		v.addText(d)
	case []any:
		for _, item := range d {
			v.addStrings(item)
		}
	case map[string]any:
		for _, value := range d {
			v.addStrings(value)
		}
	}
}

// addObject adds the data of an object if it is a Secret.
func (v *secretValues) addObject(o *unstructured.Unstructured) {
	if o != nil && o.GroupVersionKind().GroupKind() == secretKind.GroupKind() {
		v.add(secretData(o))
	}
}

// merge adds the values of an earlier run.
func (v *secretValues) merge(earlier secretValues) {
	if slices.Equal(v.values, earlier.values) {
		return
	}
	for _, value := range earlier.values {
		if !slices.Contains(v.values, value) {
			v.addText(value)
		}
	}
	slices.SortFunc(v.values, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
}

// redact returns a text without the values.
func (v *secretValues) redact(text string) string {
	for _, value := range v.values {
		text = strings.ReplaceAll(text, value, redactedValue)
	}
	return text
}

// areIn says whether a value of an object, and whether a key of it, contains one of the values.
func (v *secretValues) areIn(value any) (found, inKeys bool) {
	if len(v.values) == 0 {
		return false, false
	}
	switch o := value.(type) {
	case string:
		return v.isIn(o), false
	case []any:
		for _, item := range o {
			f, k := v.areIn(item)
			found, inKeys = found || f, inKeys || k
		}
	case map[string]any:
		for key, item := range o {
			f, k := v.areIn(item)
			inKey := v.isIn(key)
			found, inKeys = found || f || inKey, inKeys || k || inKey
		}
	}
	return found, inKeys
}

func (v *secretValues) isIn(text string) bool {
	return len(text) >= minSecretValue && slices.ContainsFunc(v.values, func(value string) bool { return strings.Contains(text, value) })
}

// redactedError is an error with a text without secret values.
type redactedError struct {
	error
	text string
}

func (e redactedError) Error() string { return e.text }
func (e redactedError) Unwrap() error { return e.error }
