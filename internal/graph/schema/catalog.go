package schema

import (
	"maps"
	"slices"
)

// Marker is a marker of the shorthand.
type Marker struct {
	Name string
	// On are the types, in OpenAPI's words, that it can stand on; none means any.
	On []string
	// Repeats says that it may be given more than once.
	Repeats bool
}

// Markers lists the markers of the shorthand, sorted by name.
func Markers() []Marker {
	var out []Marker
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		out = append(out, Marker{Name: name, On: slices.Clone(rules[name].on), Repeats: rules[name].repeats})
	}
	return out
}

// Types are the types that need no definition, with OpenAPI's names for them.
func Types() map[string]string { return maps.Clone(builtin) }
