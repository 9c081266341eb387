package object

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// NamedKinds returns the kinds that a definition names, as far as they are plain text: by fields
// apiVersion and kind of the same object, or by such lines next to each other in a text, as
// templates of functions have them. Matches chooses those to return. They are sorted.
func NamedKinds(definition any, matches func(schema.GroupKind) bool) []schema.GroupKind {
	found := map[schema.GroupKind]bool{}
	collect(definition, func(apiVersion, kind string) {
		gk := schema.FromAPIVersionAndKind(apiVersion, kind).GroupKind()
		if _, known := found[gk]; !known && gk.Group != "" && gk.Kind != "" {
			found[gk] = matches(gk)
		}
	})
	maps.DeleteFunc(found, func(_ schema.GroupKind, matches bool) bool { return !matches })
	return slices.SortedFunc(maps.Keys(found), func(a, b schema.GroupKind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind))
	})
}

func collect(value any, add func(apiVersion, kind string)) {
	switch value := value.(type) {
	case map[string]any:
		apiVersion, _ := value["apiVersion"].(string)
		kind, _ := value["kind"].(string)
		add(apiVersion, kind)
		for _, v := range value {
			collect(v, add)
		}
	case []any:
		for _, v := range value {
			collect(v, add)
		}
	case string:
		if strings.Contains(value, "apiVersion:") {
			collectLines(value, add)
		}
	}
}

// collectLines finds pairs of lines such as "apiVersion: v1" and "kind: Pod", in either order.
func collectLines(text string, add func(apiVersion, kind string)) {
	field, before := "", ""
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "- ")), ":")
		value = strings.Trim(strings.TrimSpace(value), `"'`)
		switch {
		case field == "apiVersion" && name == "kind":
			add(before, value)
		case field == "kind" && name == "apiVersion":
			add(value, before)
		}
		field, before = name, value
	}
}
