package ownership

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// EntriesAt returns the entries that own the value at a path of an object, or something in it; else the owners of
// something around it as a whole: the writer of an empty map owns what other managers add only if the map is atomic;
// then nobody owns its content. Steps are field names, and indexes of list items, which entries may know by keys.
func EntriesAt(o *unstructured.Unstructured, path []any) []Entry { return EntriesOf(o)(path) }

// EntriesOf returns EntriesAt of an object, for many paths: the entries are decoded once.
func EntriesOf(o *unstructured.Unstructured) func(path []any) []Entry {
	all := slices.Collect(Entries(o))
	sets := make([]*fieldpath.Set, len(all))
	for i, e := range all {
		sets[i] = e.Fields()
	}
	return func(path []any) []Entry {
		var exact, around []Entry
		for i, e := range all {
			switch isOwned, isAround := ownsAt(sets[i], o.Object, path); {
			case isAround:
				around = append(around, e)
			case isOwned:
				exact = append(exact, e)
			}
		}
		if len(exact) > 0 {
			return exact
		}
		return around
	}
}

// isAround reports that the set only has something around the path as a whole.
func ownsAt(set *fieldpath.Set, v any, path []any) (isOwned, isAround bool) {
	for at, step := range path {
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
				return false, false
			}
			set, owned = itemOf(set, step, items[step])
			v = items[step]
		}
		if !owned || set == nil {
			return owned, owned && at < len(path)-1
		}
	}
	return true, false
}

// Time is when the entry was last changed; zero if it does not say.
func (e Entry) Time() time.Time {
	at, _ := time.Parse(time.RFC3339, e.time)
	return at
}
