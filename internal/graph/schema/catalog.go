package schema

import (
	"maps"
	"slices"
)

// Marker is a marker of SimpleSchema.
type Marker struct {
	Name string
	// Types are the OpenAPI types that the marker applies to; none means any.
	Types []string
	// Repeatable says that the marker may be given more than once.
	Repeatable bool
}

// Markers lists the markers of SimpleSchema, sorted by name.
func Markers() []Marker {
	var out []Marker
	for _, name := range slices.Sorted(maps.Keys(markerRules)) {
		out = append(out, Marker{Name: name, Types: slices.Clone(markerRules[name].types), Repeatable: markerRules[name].repeatable})
	}
	return out
}

// Types returns the OpenAPI type of each built-in type of SimpleSchema.
func Types() map[string]string { return maps.Clone(builtin) }
