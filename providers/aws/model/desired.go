package model

import (
	"maps"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// Suffixes of the fields beside a property that a value comes from.
const (
	secretSuffix    = "SecretRef"
	refSuffix       = "Ref"
	refsSuffix      = "Refs"
	selectorSuffix  = "Selector"
	selectorsSuffix = "Selectors"
)

// Desired returns the desired state of a resource: the properties of its type's schema in forProvider and,
// where those are unset, in initProvider, without what AWS sets itself. A reference to a Secret becomes a
// SecretRef at its property.
func Desired(t *resourcetype.Type, forProvider, initProvider map[string]any) map[string]any {
	d := desired{t: t}
	out, _ := d.object(&t.Schema, overlay(initProvider, forProvider), newPaths(settable(t)), newPaths(t.WriteOnlyProperties)).(map[string]any)
	if out == nil {
		out = map[string]any{}
	}
	return out
}

// Some schemas list a property as read-only that is also required or can be set at creation.
func settable(t *resourcetype.Type) []resourcetype.Path {
	return slices.DeleteFunc(without(t.ReadOnlyProperties, slices.Concat(t.CreateOnlyProperties, t.WriteOnlyProperties)), func(p resourcetype.Path) bool {
		return len(p) == 1 && slices.Contains(t.Required, p[0])
	})
}

// If both objects have a value, the value of above counts.
func overlay(below, above map[string]any) map[string]any {
	out := maps.Clone(above)
	if out == nil {
		out = map[string]any{}
	}
	for key, value := range below {
		has, isSet := out[key]
		lower, isObject := value.(map[string]any)
		upper, wasObject := has.(map[string]any)
		switch {
		case !isSet:
			out[key] = value
		case isObject && wasObject:
			out[key] = overlay(lower, upper)
		}
	}
	return out
}

type desired struct{ t *resourcetype.Type }

// It is nil if nothing is sent.
func (d desired) value(s *resourcetype.Schema, value any, readOnly, writeOnly *paths) any {
	switch v := value.(type) {
	case map[string]any:
		return d.object(s, v, readOnly, writeOnly)
	case []any:
		items := itemOf(d.t, s)
		out := make([]any, 0, len(v))
		for _, item := range v {
			if item = d.value(items, item, readOnly.item(), writeOnly.item()); item != nil {
				out = append(out, item)
			}
		}
		return out
	}
	return value
}

func (d desired) object(s *resourcetype.Schema, v map[string]any, readOnly, writeOnly *paths) any {
	known := fields(d.t, s)
	out := make(map[string]any, len(v))
	for key, value := range v {
		field, isKnown := known[key]
		below := readOnly.field(key)
		switch {
		case value == nil, below.isIn():
			continue
		case !isKnown && len(known) > 0 && (!isMap(d.t, s) || isSibling(known, key)):
			continue
		case !isKnown:
			field = valueOf(d.t, s, key)
		}
		if value = d.value(field, value, below, writeOnly.field(key)); value != nil {
			out[key] = value
		}
	}
	for name := range known {
		// What AWS returns can be read in the status, except for what has the name of a secret. So only that and
		// write-only properties take their values from a Secret.
		mayBeSecret := writeOnly.field(name).isIn() || resourcetype.IsSecret(resourcetype.Path{name}) && !readOnly.field(name).isIn()
		if ref, ok := secretOf(v, name); ok && out[name] == nil && mayBeSecret {
			out[name] = ref
		}
	}
	return out
}

func isSibling(known map[string]*resourcetype.Schema, key string) bool {
	for _, suffix := range []string{secretSuffix, refSuffix, refsSuffix, selectorSuffix, selectorsSuffix} {
		if name, ok := strings.CutSuffix(key, suffix); ok && known[name] != nil {
			return true
		}
	}
	return false
}
