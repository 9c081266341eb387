package crd

import (
	"cmp"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

type part int

const (
	forProvider part = iota
	// initProvider has the properties of forProvider. None is required.
	initProvider
	// atProvider has what AWS returns. Its values are not checked, because a status that the API server
	// refuses would hide what AWS says.
	atProvider
)

const (
	// maxNodes is how many schemas a part may have. A type with more is not checked below a certain depth.
	maxNodes = 2500
	// maxDepth is how deep schemas may be nested.
	maxDepth = 24
)

type converter struct {
	t    *resourcetype.Type
	part part
	// deepest is the depth below which values are not described.
	deepest  int
	siblings siblings
	nodes    int
	losses   []Loss
}

func (c *converter) lose(path resourcetype.Path, what What) {
	c.losses = append(c.losses, Loss{slices.Clone(path), what})
}

func (c *converter) convert() apiextensionsv1.JSONSchemaProps {
	for c.deepest = maxDepth; ; c.deepest-- {
		c.nodes, c.losses = 0, nil
		if out, _ := c.node([]*resourcetype.Schema{&c.t.Schema}, nil, nil); c.nodes <= maxNodes {
			return out
		}
	}
}

func (c *converter) hides(path resourcetype.Path) bool {
	if c.part == atProvider {
		return resourcetype.Has(c.t.WriteOnlyProperties, path) && !resourcetype.Has(c.t.ReadOnlyProperties, path)
	}
	return resourcetype.Has(c.t.ReadOnlyProperties, path) || c.siblings.replaced(path)
}

// node converts the schemas of one value, which are alternatives or parts of one schema. It reports false if
// nothing of the value is left.
func (c *converter) node(schemas []*resourcetype.Schema, path resourcetype.Path, above []*resourcetype.Schema) (apiextensionsv1.JSONSchemaProps, bool) {
	var out apiextensionsv1.JSONSchemaProps
	if c.nodes++; c.nodes > maxNodes {
		return out, true
	}
	s := c.merge(schemas)
	if c.part != initProvider {
		out.Description = c.description(s, path)
	}
	kinds := s.types()
	isDeep := len(path) > c.deepest && (slices.Contains(kinds, "object") || slices.Contains(kinds, "array"))
	isRecursive := slices.ContainsFunc(s.all, func(each *resourcetype.Schema) bool {
		return slices.Contains(above, each) && (len(each.Properties) > 0 || len(each.PatternProperties) > 0 || each.Items != nil ||
			len(slices.Concat(each.OneOf, each.AnyOf, each.AllOf)) > 0)
	})
	if isDeep || isRecursive {
		if isRecursive {
			c.lose(path, Recursion)
		} else {
			c.lose(path, TooLarge)
		}
		return anything(out, kinds), true
	}
	above = slices.Concat(above, s.all)
	switch {
	case len(kinds) == 1:
		out.Type = kinds[0]
	case len(kinds) == 2 && slices.Contains(kinds, "integer") && slices.Contains(kinds, "number"):
		out.Type = "number"
	case len(kinds) == 2 && slices.Contains(kinds, "integer") && slices.Contains(kinds, "string"):
		out.XIntOrString = true
		return out, true
	default:
		if len(kinds) > 0 {
			c.lose(path, FreeForm)
		}
		return anything(out, nil), true
	}
	kept := true
	switch out.Type {
	case "object":
		kept = c.object(&out, s, path, above)
	case "array":
		kept = c.array(&out, s, path, above)
	default:
		if c.part != atProvider {
			c.scalar(&out, s, path)
		}
	}
	return out, kept
}

// anything returns a schema that allows any value, or any object or array if the value is known to be one.
func anything(out apiextensionsv1.JSONSchemaProps, kinds []string) apiextensionsv1.JSONSchemaProps {
	yes := true
	switch {
	case slices.Equal(kinds, []string{"object"}):
		out.Type, out.XPreserveUnknownFields = "object", &yes
	case slices.Equal(kinds, []string{"array"}):
		out.Type = "array"
		out.Items = &apiextensionsv1.JSONSchemaPropsOrArray{
			Schema: &apiextensionsv1.JSONSchemaProps{XPreserveUnknownFields: &yes},
		}
	default:
		out.XPreserveUnknownFields = &yes
	}
	return out
}

func (c *converter) object(out *apiextensionsv1.JSONSchemaProps, s merged, path resourcetype.Path, above []*resourcetype.Schema) bool {
	yes := true
	names := s.propertyNames()
	values, allowsOthers := s.values()
	for _, name := range names {
		if next := append(slices.Clip(path), name); !c.hides(next) {
			if property, kept := c.node(s.property(name), next, above); kept {
				if out.Properties == nil {
					out.Properties = map[string]apiextensionsv1.JSONSchemaProps{}
				}
				out.Properties[name] = property
			}
		}
	}
	c.addSiblings(out, path)
	switch {
	case len(names) > 0 && len(out.Properties) == 0 && len(path) > 0:
		return false
	case len(names) > 0 && (len(values) > 0 || allowsOthers):
		out.XPreserveUnknownFields = &yes
		if len(values) > 0 {
			c.lose(path, Keys)
		}
	case len(names) == 0 && len(values) > 0:
		value, kept := c.node(values, append(slices.Clip(path), resourcetype.Any), above)
		if !kept {
			return false
		}
		out.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &value}
		c.keyPatterns(s, path)
	case len(names) == 0:
		out.XPreserveUnknownFields = &yes
	}
	if c.part != atProvider {
		out.MaxProperties = upTo(s.first().MaxProperties)
	}
	if c.part == forProvider {
		out.MinProperties = s.first().MinProperties
		c.require(out, s, path)
	}
	c.loseRules(s, path)
	return true
}

func (c *converter) keyPatterns(s merged, path resourcetype.Path) {
	for _, each := range s.all {
		for pattern := range each.PatternProperties {
			if !slices.Contains([]string{"", ".*", "^.*$", ".+", "^.+$", "^.*", ".*$", "(.*)"}, pattern) {
				c.lose(path, KeyPattern)
			}
		}
	}
}

func (c *converter) loseRules(s merged, path resourcetype.Path) {
	for _, each := range s.all {
		if each.If != nil || each.Not != nil || each.Dependencies != nil || each.DependentRequired != nil {
			c.lose(path, Dependency)
		}
		if (each.DependentExcluded != nil || each.RequiredXor != nil) && !slices.Contains(s.main, each) {
			c.lose(path, Exclusion) // it is a part of an alternative
		}
	}
}

func (c *converter) array(out *apiextensionsv1.JSONSchemaProps, s merged, path resourcetype.Path, above []*resourcetype.Schema) bool {
	var items []*resourcetype.Schema
	for _, each := range s.all {
		if each.Items != nil {
			items = append(items, each.Items)
		}
	}
	if len(items) == 0 {
		*out = anything(*out, []string{"array"})
		return true
	}
	item, kept := c.node(items, append(slices.Clip(path), resourcetype.Any), above)
	if !kept {
		return false
	}
	out.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}
	if c.part == atProvider {
		return true
	}
	first := s.first()
	out.MaxItems = upTo(first.MaxItems)
	if c.part == forProvider {
		out.MinItems = first.MinItems
	}
	switch {
	case slices.Equal(path, c.t.Tagging.TagProperty) && isTag(item):
		// Several managers can each apply tags of their own.
		keyed := "map"
		out.XListType, out.XListMapKeys = &keyed, []string{"Key"}
	case first.UniqueItems && item.Type == "string" && first.InsertionOrder != nil && !*first.InsertionOrder:
		set := "set"
		out.XListType = &set
	case first.UniqueItems:
		c.lose(path, Unique)
	}
	return true
}

func isTag(item apiextensionsv1.JSONSchemaProps) bool {
	key, has := item.Properties["Key"]
	return has && key.Type == "string" && slices.Contains(item.Required, "Key")
}

func (c *converter) description(s merged, path resourcetype.Path) string {
	limit := 300
	if len(path) > 1 {
		limit = 160
	}
	if c.part == atProvider && !resourcetype.Has(c.t.ReadOnlyProperties, path) || len(path) == 0 {
		return ""
	}
	text := resourcetype.Shorten(s.description(), limit)
	if c.part == atProvider {
		return text
	}
	add := func(sentence string) {
		if text != "" {
			text += " "
		}
		text += sentence
	}
	switch {
	case contains(c.t.CreateOnlyProperties, path):
		add("It can only be set at creation.")
	case contains(c.t.ConditionalCreateOnlyProperties, path):
		add("AWS refuses some changes of it; these need a new resource.")
	}
	if contains(c.t.DeprecatedProperties, path) {
		add("Deprecated.")
	}
	return text
}

func contains(paths []resourcetype.Path, path resourcetype.Path) bool {
	return slices.ContainsFunc(paths, func(p resourcetype.Path) bool { return slices.Equal(p, path) })
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
