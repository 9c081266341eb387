package ownership

import (
	"bytes"
	"errors"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// fieldPrefix begins the name of a field in FieldsV1, and self is the field itself where
// members are below it.
const (
	fieldPrefix = "f:"
	self        = "."
)

// Decode are the fields that an entry owns. What cannot be decoded owns nothing.
func Decode(entry metav1.ManagedFieldsEntry) *fieldpath.Set {
	set := &fieldpath.Set{}
	if entry.FieldsV1 == nil || set.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())) != nil {
		return &fieldpath.Set{}
	}
	return set
}

// Encode is a set as an entry has it.
func Encode(set *fieldpath.Set) *metav1.FieldsV1 {
	raw, err := set.ToJSON()
	if err != nil {
		raw = []byte("{}") // only a path element without a value cannot be encoded
	}
	return &metav1.FieldsV1{Raw: raw}
}

// setOf is Decode for fields as the JSON of an object has them. To encode them for the library
// takes four times as long (BenchmarkDecode), and every reconcile reads those of every child.
func setOf(fields map[string]any) (set *fieldpath.Set, ok bool) {
	set = &fieldpath.Set{}
	for key, value := range fields {
		if key == self {
			continue
		}
		element, err := elementOf(key)
		switch {
		case errors.Is(err, fieldpath.ErrUnknownPathElementType):
			continue // the library leaves them out, for versions to come
		case err != nil:
			return nil, false
		}
		below, _ := value.(map[string]any)
		if len(below) == 0 {
			set.Members.Insert(element)
			continue
		}
		children, ok := setOf(below)
		if !ok {
			return nil, false
		}
		_, isMember := below[self]
		if isEmpty := children.Empty(); isMember || isEmpty {
			set.Members.Insert(element)
			if isEmpty {
				continue
			}
		}
		*set.Children.Descend(element) = *children
	}
	return set, true
}

func elementOf(key string) (fieldpath.PathElement, error) {
	if name, isField := strings.CutPrefix(key, fieldPrefix); isField {
		return fieldpath.FieldNameElement(name), nil
	}
	return fieldpath.DeserializePathElement(key)
}

// Forget takes a field and what is below it out of fields as the JSON of an object has them. It
// changes them in place, for caches that copy every event.
func Forget(entry map[string]any, path ...string) {
	fields, _ := entry["fieldsV1"].(map[string]any)
	for _, name := range path[:len(path)-1] {
		fields, _ = fields[fieldPrefix+name].(map[string]any)
	}
	delete(fields, fieldPrefix+path[len(path)-1])
}
