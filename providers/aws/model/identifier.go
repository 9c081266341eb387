package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

const separator = "|"

// IsServerAssigned reports whether AWS chooses a part of the identifiers of a type.
func IsServerAssigned(t *resourcetype.Type) bool {
	return slices.ContainsFunc(t.PrimaryIdentifier, func(part resourcetype.Path) bool { return isServerAssigned(t, part) })
}

func isServerAssigned(t *resourcetype.Type, part resourcetype.Path) bool {
	return slices.ContainsFunc(settable(t), func(p resourcetype.Path) bool { return slices.Equal(p, part) })
}

// Identifier returns the identifier of a resource that the caller names: each part from the properties, and
// the last one that is unset by name.
func Identifier(t *resourcetype.Type, properties map[string]any, name string) (string, error) {
	parts, missing := make([]string, len(t.PrimaryIdentifier)), []string{}
	last := -1
	for i, path := range t.PrimaryIdentifier {
		value, _ := at(properties, steps(path))
		part, ok := text(value)
		if parts[i] = part; !ok || part == "" {
			missing, last = append(missing, path.String()), i
		}
	}
	if last >= 0 {
		parts[last] = name
	}
	if len(missing) > 1 {
		return "", fmt.Errorf("spec.forProvider: %s must be set, because the identifier of %s consists of %s", strings.Join(missing[:len(missing)-1], ", "),
			t.Name, joined(t.PrimaryIdentifier))
	}
	return strings.Join(parts, separator), nil
}

// SetIdentifier sets the parts of an identifier in the properties. An identifier with another number of parts
// changes nothing.
func SetIdentifier(t *resourcetype.Type, properties map[string]any, identifier string) {
	parts := strings.SplitN(identifier, separator, len(t.PrimaryIdentifier))
	if len(parts) != len(t.PrimaryIdentifier) {
		return
	}
	for i, path := range t.PrimaryIdentifier {
		if isServerAssigned(t, path) {
			continue
		}
		object := properties
		for _, name := range path[:len(path)-1] {
			below, ok := object[name].(map[string]any)
			if !ok {
				below = map[string]any{}
				object[name] = below
			}
			object = below
		}
		name := path[len(path)-1]
		if has, ok := text(object[name]); !ok || has != parts[i] {
			object[name] = scalar(t, fieldAt(t, path), parts[i])
		}
	}
}

// IdentifierOf returns the identifier that a resource has by its properties; empty if a part is missing.
func IdentifierOf(t *resourcetype.Type, properties map[string]any) string {
	var parts []string
	for _, path := range t.PrimaryIdentifier {
		value, _ := at(properties, steps(path))
		part, ok := text(value)
		if !ok || part == "" {
			return ""
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, separator)
}

func steps(p resourcetype.Path) []any {
	var out []any
	for _, name := range p {
		out = append(out, name)
	}
	return out
}

func joined(all []resourcetype.Path) string {
	var names []string
	for _, p := range all {
		names = append(names, p.String())
	}
	return strings.Join(names, separator)
}

// It is nil if nothing is known of the path.
func fieldAt(t *resourcetype.Type, path resourcetype.Path) *resourcetype.Schema {
	s := &t.Schema
	for _, name := range path {
		if name == "*" {
			if items := itemOf(t, s); items != nil {
				s = items
				continue
			}
		}
		s = fieldOf(t, s, name)
	}
	return t.Resolve(s)
}

// ListModel returns the properties that a list of resources needs to be given, from a resource's own ones. The
// error names what is missing.
func ListModel(t *resourcetype.Type, properties map[string]any) (map[string]any, error) {
	s := t.Handlers[resourcetype.List].HandlerSchema
	if s == nil {
		return nil, nil
	}
	out := map[string]any{}
	for name := range s.Properties {
		if value, ok := properties[name]; ok && !HasSecretRef(value) {
			out[name] = value
		}
	}
	for _, name := range s.Required {
		if out[name] == nil {
			return nil, fmt.Errorf("a list of %s needs %s, which spec.forProvider does not have", t.Name, name)
		}
	}
	if len(out) == 0 {
		return nil, nil
	}
	return out, nil
}

// IsListable reports whether resources can be listed with what a user can set.
func IsListable(t *resourcetype.Type) bool {
	list, ok := t.Handlers[resourcetype.List]
	if !ok {
		return false
	}
	if list.HandlerSchema == nil {
		return true
	}
	return !slices.ContainsFunc(list.HandlerSchema.Required, func(name string) bool {
		return isServerAssigned(t, resourcetype.Path{name})
	})
}
