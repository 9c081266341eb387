package crd

import (
	"slices"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// merged are the schemas of one value: those that it must all satisfy, and alternatives.
type merged struct {
	// all are the schemas with a shape, the main one first.
	all []*resourcetype.Schema
	// main are the schemas that the value must all satisfy.
	main []*resourcetype.Schema
	// groups are the alternatives. The value must satisfy one of each.
	groups []group
	// text is the description nearest to the use of the schema.
	text string
}

type group struct {
	schemas []*resourcetype.Schema
	// exclusive reports whether the value must satisfy just one.
	exclusive bool
}

// References are resolved. More than one schema are alternatives of each other.
func (c *converter) merge(schemas []*resourcetype.Schema) merged {
	var m merged
	for _, s := range schemas {
		if m.text == "" && s != nil {
			m.text = s.Description
		}
		c.add(&m, s, len(schemas) == 1)
	}
	if len(schemas) > 1 {
		m.groups = append(m.groups, group{schemas: slices.Clone(m.all)})
	}
	if len(m.all) == 0 {
		m.all = []*resourcetype.Schema{{}}
	}
	return m
}

func (c *converter) add(m *merged, s *resourcetype.Schema, isMain bool) {
	s = c.t.Resolve(s)
	if s == nil || slices.Contains(m.all, s) {
		return
	}
	m.all = append(m.all, s)
	if isMain {
		m.main = append(m.main, s)
	}
	for _, each := range s.AllOf {
		c.add(m, each, isMain)
	}
	for _, alternatives := range []group{{s.OneOf, true}, {s.AnyOf, false}} {
		if len(alternatives.schemas) == 0 {
			continue
		}
		g := group{exclusive: alternatives.exclusive}
		for _, each := range alternatives.schemas {
			if each = c.t.Resolve(each); each != nil {
				g.schemas = append(g.schemas, each)
				c.add(m, each, false)
			}
		}
		if isMain {
			m.groups = append(m.groups, g)
		}
	}
}

// It is empty if there are only alternatives.
func (m merged) first() *resourcetype.Schema {
	if len(m.main) > 0 {
		return m.main[0]
	}
	return &resourcetype.Schema{}
}

func (m merged) description() string {
	if m.text != "" {
		return m.text
	}
	return m.all[0].Description
}

// They are sorted, without null. A schema without a type has the type that its other fields are for.
func (m merged) types() []string {
	var out []string
	for _, s := range m.all {
		types := []string(s.Types)
		if len(types) == 0 {
			types = typesOf(s)
		}
		for _, name := range types {
			if name != "null" && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

func typesOf(s *resourcetype.Schema) []string {
	switch {
	case len(s.Properties) > 0 || len(s.PatternProperties) > 0:
		return []string{"object"}
	case s.Items != nil:
		return []string{"array"}
	case s.Format == "json": // a pattern only says how its text looks
		return []string{"object", "string"}
	case s.Pattern != "" || s.MinLength != nil || s.MaxLength != nil:
		return []string{"string"}
	case len(s.Enum) > 0 && len(s.Enum[0]) > 0 && s.Enum[0][0] == '"':
		return []string{"string"}
	}
	return nil
}

func (m merged) propertyNames() []string {
	names := map[string]bool{}
	for _, s := range m.all {
		for name := range s.Properties {
			names[name] = true
		}
	}
	return sortedKeys(names)
}

func (m merged) property(name string) []*resourcetype.Schema {
	var out []*resourcetype.Schema
	for _, s := range m.all {
		if property := s.Properties[name]; property != nil && !slices.Contains(out, property) {
			out = append(out, property)
		}
	}
	return out
}

// The keys are no properties. anything reports that there may be any value.
func (m merged) values() (out []*resourcetype.Schema, anything bool) {
	for _, s := range m.all {
		for _, pattern := range sortedKeys(s.PatternProperties) {
			out = append(out, s.PatternProperties[pattern])
		}
		if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
			out = append(out, s.AdditionalProperties.Schema)
		} else if s.AdditionalProperties != nil && s.AdditionalProperties.Allows {
			anything = true
		}
	}
	return out, anything
}
