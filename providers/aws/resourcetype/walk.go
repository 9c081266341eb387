package resourcetype

import (
	"maps"
	"slices"
)

// Any is the name in a path that stands for each item of an array or each value of a map.
const Any = "*"

// Child returns the schemas of what a schema has under a name: a property, or the items of an array or the
// values of a map for Any. There are several if alternatives of the schema say something about it.
func (t *Type) Child(s *Schema, name string) []*Schema {
	return t.child(s, name, nil, len(t.Definitions)+8)
}

// child appends to found. The depth bounds alternatives that refer to themselves.
func (t *Type) child(s *Schema, name string, found []*Schema, depth int) []*Schema {
	if s = t.Resolve(s); s == nil || depth == 0 {
		return found
	}
	add := func(c *Schema) {
		if c != nil && !slices.Contains(found, c) {
			found = append(found, c)
		}
	}
	if name == Any {
		add(s.Items)
		for _, pattern := range slices.Sorted(maps.Keys(s.PatternProperties)) {
			add(s.PatternProperties[pattern])
		}
		if s.AdditionalProperties != nil {
			add(s.AdditionalProperties.Schema)
		}
	} else {
		add(s.Properties[name])
	}
	for _, alternatives := range [][]*Schema{s.AllOf, s.AnyOf, s.OneOf} {
		for _, alternative := range alternatives {
			found = t.child(alternative, name, found, depth-1)
		}
	}
	return found
}

// At returns the schemas at a path, with references resolved: none if the type has no such property.
func (t *Type) At(path Path) []*Schema {
	at := []*Schema{&t.Schema}
	for _, name := range path {
		var next []*Schema
		for _, s := range at {
			for _, c := range t.Child(s, name) {
				if c = t.Resolve(c); c != nil && !slices.Contains(next, c) {
					next = append(next, c)
				}
			}
		}
		at = next
	}
	return at
}

// HasType reports whether values of the schema may have a JSON type.
func (t *Type) HasType(s *Schema, name string) bool {
	s = t.Resolve(s)
	return s != nil && slices.Contains(s.Types, name)
}

// Has reports whether a path is one of paths, or below one of them.
func Has(paths []Path, path Path) bool {
	return slices.ContainsFunc(paths, func(p Path) bool {
		return len(p) <= len(path) && slices.Equal(p, path[:len(p)])
	})
}
