package ownership

import (
	"bytes"
	"errors"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// fieldPrefix is the prefix of field names in FieldsV1, and selfKey stands for the field
// itself where members are below it.
const (
	fieldPrefix = "f:"
	selfKey     = "."
)

// Decode returns the fields that an entry owns. The set is empty if they cannot be decoded.
func Decode(entry metav1.ManagedFieldsEntry) *fieldpath.Set {
	set := &fieldpath.Set{}
	if entry.FieldsV1 == nil || set.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())) != nil {
		return &fieldpath.Set{}
	}
	return set
}

// Encode returns a set as an entry contains it.
func Encode(set *fieldpath.Set) *metav1.FieldsV1 {
	raw, err := set.ToJSON()
	if err != nil {
		raw = []byte("{}") // only a path element without a value cannot be encoded
	}
	return &metav1.FieldsV1{Raw: raw}
}

// decodeFields is Decode for the unstructured form of the fields. Encoding them for the
// library first takes four times as long (BenchmarkDecode), and every reconcile reads the
// fields of every child.
func decodeFields(fields map[string]any) (set *fieldpath.Set, ok bool) {
	set = &fieldpath.Set{}
	for key, value := range fields {
		if key == selfKey {
			continue
		}
		element, err := decodeElement(key)
		switch {
		case errors.Is(err, fieldpath.ErrUnknownPathElementType):
			continue // the library ignores them, for later versions
		case err != nil:
			return nil, false
		}
		below, _ := value.(map[string]any)
		if len(below) == 0 {
			set.Members.Insert(element)
			continue
		}
		children, ok := decodeFields(below)
		if !ok {
			return nil, false
		}
		_, isMember := below[selfKey]
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

func decodeElement(key string) (fieldpath.PathElement, error) {
	if name, isField := strings.CutPrefix(key, fieldPrefix); isField {
		return fieldpath.FieldNameElement(name), nil
	}
	return fieldpath.DeserializePathElement(key)
}

// RemoveField removes a field and what is below it from an entry in unstructured form. It
// modifies the entry, for caches that copy every event.
func RemoveField(entry map[string]any, path ...string) {
	fields, _ := entry["fieldsV1"].(map[string]any)
	for _, name := range path[:len(path)-1] {
		fields, _ = fields[fieldPrefix+name].(map[string]any)
	}
	delete(fields, fieldPrefix+path[len(path)-1])
}
