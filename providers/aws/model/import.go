package model

import (
	"maps"
	"slices"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// Importable returns what spec.forProvider of a managed resource has for a resource that exists: what a user can set,
// as a read returned it. Properties that AWS sets, that reads don't return or that are superseded, tags that are not
// the user's, empty values, and all but one of properties that exclude each other are left out. It also returns the
// properties that are left out because the schema doesn't accept what AWS returns.
func Importable(t *resourcetype.Type, read map[string]any) (forProvider map[string]any, refused []string) {
	shaped := Shape(t, read)
	i := importer{t: t, tags: TagsOf(t), skip: newPaths(settable(t), t.WriteOnlyProperties, superseded(t))}
	out, _ := i.value(&t.Schema, shaped, i.skip).(map[string]any)
	if out == nil {
		out = map[string]any{}
	}
	if i.tags.Property != "" {
		i.setTags(out, shaped)
	}
	for _, name := range slices.Sorted(maps.Keys(out)) {
		if !fits(t, fieldOf(t, &t.Schema, name), out[name]) {
			delete(out, name)
			refused = append(refused, name)
		}
	}
	return out, refused
}

// These deprecated properties can be left out: not required ones, and not parts of items, which are compared as a
// whole.
func superseded(t *resourcetype.Type) []resourcetype.Path {
	return slices.DeleteFunc(slices.Clone(t.DeprecatedProperties), func(p resourcetype.Path) bool {
		return len(p) > 1 || slices.Contains(t.Required, p[0])
	})
}

type importer struct {
	t    *resourcetype.Type
	tags Tags
	skip *paths
}

// It is nil if nothing stays.
func (i importer) value(s *resourcetype.Schema, value any, skip *paths) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, item := range v {
			if below := skip.field(key); !below.isIn() {
				if item = i.value(fieldOf(i.t, s, key), item, below); item != nil {
					out[key] = item
				}
			}
		}
		dropExcluded(i.t, s, nil, out)
		if len(out) > 0 || len(v) == 0 { // an empty object can be a choice, as in {"Allow": {}}
			return out
		}
		return nil
	case []any:
		if len(v) == 0 && itemOf(i.t, s) != nil {
			return nil // unlike an empty list in a document
		}
		out := make([]any, 0, len(v)) // with as many items: their order can have a meaning
		for _, item := range v {
			kept := i.value(itemOf(i.t, s), item, skip.item())
			if kept == nil {
				kept = map[string]any{}
				if _, isObject := item.(map[string]any); !isObject {
					return nil
				}
			}
			out = append(out, kept)
		}
		return out
	case string:
		if v == "" {
			return nil
		}
	}
	return value
}

func (i importer) setTags(out, read map[string]any) {
	all := i.tags.Read(read)
	maps.DeleteFunc(all, func(key, _ string) bool { return !isUsers(key) })
	delete(out, i.tags.Property)
	if len(all) > 0 {
		out[i.tags.Property] = i.tags.Add(nil, all)
	}
}
