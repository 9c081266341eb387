package ownership

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// EntriesAt returns the entries that own the value at a path of an object, something around it as a whole, or something in it.
// Steps are names of fields, and indexes of list items, which an entry may know by their keys.
func EntriesAt(o *unstructured.Unstructured, path []any) []Entry {
	var out []Entry
	for e := range Entries(o) {
		if ownsAt(e.Fields(), o.Object, path) {
			out = append(out, e)
		}
	}
	return out
}

func ownsAt(set *fieldpath.Set, v any, path []any) bool {
	for _, step := range path {
		var owned bool
		switch step := step.(type) {
		case string:
			name := step
			set, owned = child(set, fieldpath.PathElement{FieldName: &name})
			fields, _ := v.(map[string]any)
			v = fields[step]
		case int:
			items, _ := v.([]any)
			if step < 0 || step >= len(items) {
				return false
			}
			set, owned = itemOf(set, step, items[step])
			v = items[step]
		}
		if !owned || set == nil {
			return owned
		}
	}
	return true
}

// Time is when the entry was last changed; zero if it does not say.
func (e Entry) Time() time.Time {
	at, _ := time.Parse(time.RFC3339, e.time)
	return at
}
