package ownership

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/espalier-dev/espalier/internal/object"
)

// UnownedPaths lists the parts of a field of a map that are not in the map's set, ordered by name. A branch without any
// owned field is listed by its leaves. Null is not listed, because it means nothing in an apply configuration. The
// paths begin with the map's path.
func UnownedPaths(name string, v any, set *fieldpath.Set, at object.Path) []object.Path {
	if v == nil {
		return nil
	}
	below, owned := child(set, fieldpath.PathElement{FieldName: &name})
	switch {
	case !owned:
		return leaves(v, at.Field(name))
	case below == nil:
		return nil
	}
	return missingBelow(v, below, at.Field(name))
}

func missingBelow(v any, set *fieldpath.Set, at object.Path) (missing []object.Path) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			missing = append(missing, UnownedPaths(name, v[name], set, at)...)
		}
	case []any:
		for i, item := range v {
			switch below, owned := itemOf(set, i, item); {
			case !owned:
				missing = append(missing, at.Index(i))
			case below != nil:
				missing = append(missing, missingBelow(item, below, at.Index(i))...)
			}
		}
	}
	return missing
}

func leaves(v any, at object.Path) []object.Path {
	fields, ok := v.(map[string]any)
	if !ok || len(fields) == 0 {
		return []object.Path{at}
	}
	var out []object.Path
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if fields[name] != nil {
			out = append(out, leaves(fields[name], at.Field(name))...)
		}
	}
	return out
}

// Overlaps reports whether a value has a field that is in a set. Lists are compared as a whole.
func Overlaps(v any, set *fieldpath.Set) bool {
	fields, isMap := v.(map[string]any)
	if !isMap {
		return true
	}
	for name, v := range fields {
		if below, owned := child(set, fieldpath.PathElement{FieldName: &name}); owned && (below == nil || Overlaps(v, below)) {
			return true
		}
	}
	return false
}

// OwnsAny reports whether one of the fields of a map, or a part of it, is in a set.
func OwnsAny(v map[string]any, fields []object.Path, set *fieldpath.Set) bool {
	unowned := missingBelow(v, set, "")
	return slices.ContainsFunc(fields, func(field object.Path) bool {
		return !slices.ContainsFunc(unowned, func(p object.Path) bool { return isAtOrBelow(field, p) })
	})
}

func isAtOrBelow(field, p object.Path) bool {
	rest, has := strings.CutPrefix(string(field), string(p))
	return has && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// Differs reports whether a field of wanted that is in a set has another value on the live object. Lists are compared
// as a whole.
func Differs(wanted, live map[string]any, set *fieldpath.Set) bool {
	for name, v := range wanted {
		below, owned := child(set, fieldpath.PathElement{FieldName: &name})
		if !owned {
			continue
		}
		fields, isMap := v.(map[string]any)
		has, _ := live[name].(map[string]any)
		if below != nil && isMap && has != nil {
			if Differs(fields, has, below) {
				return true
			}
		} else if !reflect.DeepEqual(v, live[name]) {
			return true
		}
	}
	return false
}

// Extract returns the part of a value that is in a set. What is owned as a whole is shared
// with the value.
func Extract(v any, set *fieldpath.Set) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, v := range v {
			if below, owned := child(set, fieldpath.PathElement{FieldName: &name}); owned {
				out[name] = extractBelow(v, below)
			}
		}
		return out
	case []any:
		out := []any{}
		for i, item := range v {
			if below, owned := itemOf(set, i, item); owned {
				out = append(out, extractBelow(item, below))
			}
		}
		return out
	}
	return v
}

func extractBelow(v any, set *fieldpath.Set) any {
	if set == nil {
		return v
	}
	return Extract(v, set)
}

func itemOf(set *fieldpath.Set, index int, item any) (below *fieldpath.Set, owned bool) {
	set.Children.Iterate(func(e fieldpath.PathElement) { // All would not stop early
		if !owned && isItem(e, index, item) {
			below, owned = set.Children.Get(e)
		}
	})
	if owned {
		return below, true
	}
	for e := range set.Members.All() {
		if isItem(e, index, item) {
			return nil, true
		}
	}
	return nil, false
}

// isItem reports whether a path element selects an item of a list. A key that the item leaves out was defaulted by the
// server, and matches anything.
func isItem(e fieldpath.PathElement, index int, item any) bool {
	switch {
	case e.Key != nil:
		fields, isMap := item.(map[string]any)
		if !isMap {
			return false
		}
		for _, key := range *e.Key {
			if v, has := fields[key.Name]; has && !value.Equals(key.Value, value.NewValueInterface(v)) {
				return false
			}
		}
		return true
	case e.Value != nil:
		return value.Equals(*e.Value, value.NewValueInterface(item))
	case e.Index != nil:
		return *e.Index == index
	}
	return false
}
