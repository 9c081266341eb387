package schema

import (
	"fmt"
	"maps"
	"slices"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/internal/object"
)

// Change is one difference between two schemas of a kind.
type Change struct {
	// Path is the field in an object of the kind: spec.ports[].name for the items
	// of a list, spec.labels[*] for the values of a map.
	Path object.Path
	// Breaking says that a valid object may be refused or lose data
	// after the change, or that a client may no longer be able to read it.
	Breaking bool
	// Description says what changed: "became required".
	Description string
}

// String renders the change on one line.
func (c Change) String() string {
	mark := ""
	if c.Breaking {
		mark = " (breaking)"
	}
	return fmt.Sprintf("%s: %s%s", c.Path, c.Description, mark)
}

// Compare lists the changes from one schema to another, field by field in the order of
// their names; the same schemas always give the same list. It ignores documentation:
// descriptions, titles, examples and the messages of rules.
//
// A difference that it does not understand counts as breaking.
func Compare(old, new *extv1.JSONSchemaProps, at object.Path) []Change {
	var c changes
	c.compare(old, new, at)
	return c
}

type changes []Change

func (c *changes) breaking(at object.Path, format string, args ...any) {
	*c = append(*c, Change{Path: at, Breaking: true, Description: fmt.Sprintf(format, args...)})
}

func (c *changes) harmless(at object.Path, format string, args ...any) {
	*c = append(*c, Change{Path: at, Description: fmt.Sprintf(format, args...)})
}

func (c *changes) add(breaking bool, at object.Path, format string, args ...any) {
	*c = append(*c, Change{Path: at, Breaking: breaking, Description: fmt.Sprintf(format, args...)})
}

func (c *changes) compare(old, new *extv1.JSONSchemaProps, at object.Path) {
	switch {
	case old == nil && new == nil:
		return
	case old == nil:
		c.harmless(at, "schema added")
		return
	case new == nil:
		c.breaking(at, "schema removed")
		return
	}
	if was, is := typeOf(old), typeOf(new); was != is {
		// The fields of different types cannot be compared.
		c.breaking(at, "type changed from %s to %s", was, is)
		return
	}
	c.compareDefault(old, new, at)
	c.compareValues(old, new, at)
	c.compareShape(old, new, at)
	c.compareRules(old, new, at)
	c.compareRest(old, new, at)
	c.compareFields(old, new, at)
	c.compareItems(old, new, at)
	c.compareMapping(old, new, at)
}

func typeOf(s *extv1.JSONSchemaProps) string {
	switch {
	case s.XIntOrString:
		return "int-or-string"
	case s.Type == "":
		return "anything"
	}
	return s.Type
}

func (c *changes) compareFields(old, new *extv1.JSONSchemaProps, at object.Path) {
	names := maps.Clone(old.Properties)
	if names == nil {
		names = map[string]extv1.JSONSchemaProps{}
	}
	maps.Copy(names, new.Properties)
	for _, name := range append(slices.Clone(old.Required), new.Required...) {
		if _, listed := names[name]; !listed {
			names[name] = extv1.JSONSchemaProps{}
		}
	}
	for _, name := range sortedKeys(names) {
		c.compareField(old, new, name, at.Field(name))
	}
}

func (c *changes) compareField(old, new *extv1.JSONSchemaProps, name string, at object.Path) {
	was, existed := old.Properties[name]
	is, exists := new.Properties[name]
	wasRequired, isRequired := slices.Contains(old.Required, name), slices.Contains(new.Required, name)
	switch {
	case existed && !exists:
		c.breaking(at, "field removed")
		return
	case !existed && exists && isRequired && !wasRequired && is.Default == nil:
		c.breaking(at, "required field added without a default")
		return
	case !existed && exists:
		// If unknown fields were kept, objects may have another value by this name.
		c.add(keepsUnknown(old) || old.AdditionalProperties != nil, at, "field added")
		return
	}
	switch {
	case !wasRequired && isRequired:
		c.add(is.Default == nil, at, "became required")
	case wasRequired && !isRequired:
		c.harmless(at, "no longer required")
	case isRequired && was.Default != nil && is.Default == nil:
		c.breaking(at, "required and lost its default")
	}
	if existed {
		c.compare(&was, &is, at)
	}
}

func (c *changes) compareItems(old, new *extv1.JSONSchemaProps, at object.Path) {
	was, is := items(old), items(new)
	switch {
	case was == nil && is == nil:
	case was == nil:
		c.breaking(at, "items of the list became typed")
	case is == nil:
		c.breaking(at, "items of the list lost their type")
	default:
		c.compare(was, is, at+"[]")
	}
}

func items(s *extv1.JSONSchemaProps) *extv1.JSONSchemaProps {
	if s.Items == nil {
		return nil
	}
	return s.Items.Schema
}

// compareMapping compares the values of maps. An object without additional properties
// drops unknown fields.
func (c *changes) compareMapping(old, new *extv1.JSONSchemaProps, at object.Path) {
	was, wasMap := mapValues(old)
	is, isMap := mapValues(new)
	switch {
	case wasMap && !isMap:
		c.breaking(at, "no longer a map")
	case !wasMap && isMap:
		c.add(len(old.Properties) > 0 || keepsUnknown(old) && is != nil, at, "became a map")
	case was != nil && is == nil && isMap:
		c.harmless(at, "values of the map may be anything")
	case was == nil && is != nil:
		c.breaking(at, "values of the map became typed")
	case was != nil:
		c.compare(was, is, at+"[*]")
	}
}

// mapValues reports whether s is a map, and returns the schema of its values; nil for anything.
func mapValues(s *extv1.JSONSchemaProps) (values *extv1.JSONSchemaProps, isMap bool) {
	a := s.AdditionalProperties
	if a == nil || !a.Allows && a.Schema == nil {
		return nil, false
	}
	return a.Schema, true
}

func keepsUnknown(s *extv1.JSONSchemaProps) bool {
	return s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields
}
