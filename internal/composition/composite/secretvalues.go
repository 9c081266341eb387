package composite

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// secretValues are the values of the Secrets that a pipeline was given. Functions are opaque: what
// they computed from a value is unknown. Texts and objects are searched for the values.
type secretValues struct {
	// values are sorted by length, the longest first, so no part of a value remains.
	values []string
	// overflow says that there are more values than are searched for. Each text counts as one then.
	overflow bool
}

// Secrets are the values of the Secrets that a pipeline was given, for others who run one.
type Secrets struct{ values secretValues }

// AddObject adds the data of a Secret. Other objects have none.
func (s *Secrets) AddObject(o *unstructured.Unstructured) { s.values.addObject(o) }

// Redact returns a text without the values.
func (s *Secrets) Redact(text string) string { return s.values.redact(text) }

// AreIn reports whether a JSON value has one of them.
func (s *Secrets) AreIn(value any) bool {
	found, inKeys := s.values.search().areIn(value)
	return found || inKeys
}

const (
	// minSecretValue is the length, in bytes, of the shortest value that is searched for: shorter
	// ones, such as a port, are parts of too many other texts.
	minSecretValue = 6
	// minSecretPart is the length, in bytes, of the shortest part of a value that is searched for
	// where a text was truncated.
	minSecretPart   = 3
	maxSecretValues = 1000
	// maxSearched bounds a search: the bytes of the texts of all objects, times the number of values. It takes a tenth of a
	// second.
	maxSearched   = 256 << 20
	redactedValue = "(redacted: from a Secret)"
	// redactedText replaces a text if there are more than maxSecretValues.
	redactedText = "(redacted: the Secrets have too many values to search for)"
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
	v.sort()
}

// addText adds a text as it is, and as messages escape it: quoted in Go or JSON, or made printable.
func (v *secretValues) addText(text string) {
	if len(text) < minSecretValue {
		return
	}
	v.addForm(text)
	v.addForm(diag.Printable(text))
	v.addForm(withoutQuotes(strconv.Quote(text)))
	v.addForm(withoutQuotes(strconv.QuoteToASCII(text)))
	if quoted, err := json.Marshal(text); err == nil {
		v.addForm(withoutQuotes(string(quoted)))
	}
	var unescaped strings.Builder
	encoder := json.NewEncoder(&unescaped)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(text) == nil {
		v.addForm(withoutQuotes(strings.TrimSuffix(unescaped.String(), "\n")))
	}
}

func withoutQuotes(text string) string { return text[1 : len(text)-1] }

func (v *secretValues) addForm(text string) {
	switch {
	case len(text) < minSecretValue: // white space that a message collapses
	case v.overflow || slices.Contains(v.values, text):
	case len(v.values) == maxSecretValues:
		v.overflow = true
	default:
		v.values = append(v.values, text)
	}
}

func (v *secretValues) sort() {
	slices.SortFunc(v.values, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
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

func (v *secretValues) addObject(o *unstructured.Unstructured) {
	if o != nil && o.GroupVersionKind().GroupKind() == secretKind.GroupKind() {
		v.add(object.SecretData(o))
	}
}

// merge adds the values of an earlier run. It changes no slice of another secretValues.
func (v *secretValues) merge(earlier secretValues) {
	v.overflow = v.overflow || earlier.overflow
	if slices.Equal(v.values, earlier.values) {
		return
	}
	v.values = slices.Clone(v.values)
	for _, value := range earlier.values {
		v.addForm(value)
	}
	v.sort()
}

func (v *secretValues) search() *secretSearch {
	return &secretSearch{values: v.values, exceeded: v.overflow}
}

// secretSearch is a search of the objects of a composite. Once it is exceeded, each further object counts as one with values.
type secretSearch struct {
	values   []string
	searched int
	exceeded bool
}

// areIn reports whether a value of an object, and whether a key of it, contains one of the values.
func (s *secretSearch) areIn(value any) (found, inKeys bool) {
	switch o := value.(type) {
	case string:
		found = s.isIn(o)
	case []any:
		for _, item := range o {
			f, k := s.areIn(item)
			found, inKeys = found || f, inKeys || k
		}
	case map[string]any:
		for key, item := range o {
			f, k := s.areIn(item)
			inKey := s.isIn(key)
			found, inKeys = found || f || inKey, inKeys || k || inKey
		}
	}
	return found || s.exceeded, inKeys || s.exceeded
}

func (s *secretSearch) isIn(text string) bool {
	s.searched += len(text) * len(s.values)
	s.exceeded = s.exceeded || s.searched > maxSearched
	return s.exceeded || slices.ContainsFunc(s.values, func(value string) bool { return strings.Contains(text, value) })
}

// redact removes the values from a text, and parts of them where it was truncated.
func (v *secretValues) redact(text string) string {
	if v.overflow && text != "" {
		return redactedText
	}
	for _, value := range v.values {
		text = strings.ReplaceAll(text, value, redactedValue)
	}
	return v.redactTruncated(text)
}

// redactReason replaces a reason that contains a value by another one: a reason is one word.
func (v *secretValues) redactReason(reason string) string {
	if v.redact(reason) != reason {
		return "Redacted"
	}
	return reason
}

// redactTruncated replaces the beginning of a value before an ellipsis, and the end of one after it.
func (v *secretValues) redactTruncated(text string) string {
	pieces := strings.Split(text, diag.Ellipsis)
	for i, piece := range pieces {
		if i < len(pieces)-1 {
			piece = piece[:len(piece)-v.longestPart(func(value string, n int) bool { return strings.HasSuffix(piece, value[:n]) }, len(piece))]
			if piece != pieces[i] {
				piece += redactedValue
			}
		}
		if i > 0 {
			if n := v.longestPart(func(value string, n int) bool { return strings.HasPrefix(piece, value[len(value)-n:]) }, len(piece)); n > 0 {
				piece = redactedValue + piece[n:]
			}
		}
		pieces[i] = piece
	}
	return strings.Join(pieces, diag.Ellipsis)
}

// longestPart is the length of the longest part of a value that a text contains, up to a limit in bytes; 0 for none.
func (v *secretValues) longestPart(has func(value string, n int) bool, limit int) int {
	longest := 0
	for _, value := range v.values {
		for n := min(len(value)-1, limit); n >= minSecretPart && n > longest; n-- {
			if has(value, n) {
				longest = n
			}
		}
	}
	return longest
}

type redactedError struct {
	error
	text string
}

func (e redactedError) Error() string { return e.text }
func (e redactedError) Unwrap() error { return e.error }

// RedactedText implements kube.RedactedTexter.
func (e redactedError) RedactedText() string { return e.text }
