package resourcetype

import (
	"maps"
	"slices"
	"strings"
)

// Exclusion says which properties of an object must not be set together.
type Exclusion struct {
	// Names are properties. At most one may be set, or if there are Others, the one that excludes these.
	Names, Others []string
	// IsAlternative reports whether the schema says so by alternatives: just one may apply.
	IsAlternative bool
}

// Exclusions returns which properties of an object the schema forbids to set together, those that are easier to
// write first. It leaves out what alternatives with several properties say, and what schemas say that this one
// consists of.
func (t *Type) Exclusions(s *Schema) []Exclusion {
	var out []Exclusion
	if len(s.RequiredXor) > 1 {
		out = append(out, Exclusion{Names: s.RequiredXor})
	}
	if names := alternativeNames(s.OneOf); len(names) > 1 {
		out = append(out, Exclusion{Names: names, IsAlternative: true})
	}
	names := slices.SortedFunc(maps.Keys(s.DependentExcluded), func(a, b string) int { return t.compareProperties(s, a, b) })
	for i, name := range names {
		var others []string
		for _, other := range slices.Sorted(slices.Values(s.DependentExcluded[name])) {
			switch {
			case !slices.Contains(s.DependentExcluded[other], name):
				others = append(others, other)
			case slices.Index(names, other) > i:
				out = append(out, Exclusion{Names: []string{name, other}})
			}
		}
		if len(others) > 0 {
			out = append(out, Exclusion{Names: []string{name}, Others: others})
		}
	}
	return out
}

// AllExclusions returns the exclusions of a schema and of all schemas that it consists of.
func (t *Type) AllExclusions(s *Schema) []Exclusion { return t.allExclusions(s, len(t.Definitions)+8) }

func (t *Type) allExclusions(s *Schema, depth int) []Exclusion {
	if s = t.Resolve(s); s == nil || depth == 0 {
		return nil
	}
	out := t.Exclusions(s)
	for _, part := range s.AllOf {
		out = append(out, t.allExclusions(part, depth-1)...)
	}
	return out
}

// Simple properties come before objects and arrays, and then names count.
func (t *Type) compareProperties(s *Schema, a, b string) int {
	isNested := func(name string) int {
		if p := s.Properties[name]; p != nil && (t.HasType(p, "object") || t.HasType(p, "array")) {
			return 1
		}
		return 0
	}
	if order := isNested(a) - isNested(b); order != 0 {
		return order
	}
	return strings.Compare(a, b)
}

func alternativeNames(alternatives []*Schema) []string {
	var names []string
	for _, each := range alternatives {
		if each == nil || len(each.Required) != 1 || slices.Contains(names, each.Required[0]) {
			return nil
		}
		names = append(names, each.Required[0])
	}
	return names
}
