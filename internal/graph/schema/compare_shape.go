package schema

import (
	"slices"
	"strings"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/espalier-dev/espalier/internal/object"
)

// compareShape compares how values are stored and merged. Any change of how a list or a map
// is merged is breaking: fields change owners, and duplicate items become invalid.
func (c *changes) compareShape(old, new *extv1.JSONSchemaProps, at object.Path) {
	switch was, is := keepsUnknown(old), keepsUnknown(new); {
	case was && !is:
		c.breaking(at, "unknown fields are no longer kept")
	case !was && is:
		c.harmless(at, "unknown fields are kept")
	}
	if old.XEmbeddedResource != new.XEmbeddedResource {
		c.add(new.XEmbeddedResource, at, "%s an embedded resource", becameOrNoLonger(new.XEmbeddedResource))
	}
	if was, is := listType(old), listType(new); was != is {
		c.breaking(at, "list type changed from %s to %s", was, is)
	}
	if was, is := mapType(old), mapType(new); was != is {
		c.breaking(at, "map type changed from %s to %s", was, is)
	}
	if was, is := old.XListMapKeys, new.XListMapKeys; !slices.Equal(was, is) {
		c.breaking(at, "list keys changed from %s to %s", listKeys(was), listKeys(is))
	}
}

func becameOrNoLonger(yes bool) string {
	if yes {
		return "became"
	}
	return "no longer"
}

// mapType is the x-kubernetes-map-type of a map. The default is granular: it is merged key
// by key.
func mapType(s *extv1.JSONSchemaProps) string {
	if s.XMapType == nil {
		return "granular"
	}
	return *s.XMapType
}

func listKeys(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// compareRules compares validation rules by their text. It does not decide whether one rule
// is weaker than another: a changed rule counts as one removed and one added.
func (c *changes) compareRules(old, new *extv1.JSONSchemaProps, at object.Path) {
	demands := func(rules extv1.ValidationRules, r extv1.ValidationRule) bool {
		return slices.ContainsFunc(rules, func(o extv1.ValidationRule) bool {
			return o.Rule == r.Rule && boolValue(o.OptionalOldSelf) == boolValue(r.OptionalOldSelf)
		})
	}
	for _, r := range old.XValidations {
		switch {
		case demands(new.XValidations, r):
		case r.Rule == isImmutable:
			c.harmless(at, "no longer immutable")
		default:
			c.harmless(at, "rule %q removed", r.Rule)
		}
	}
	for _, r := range new.XValidations {
		switch {
		case demands(old.XValidations, r):
		case r.Rule == isImmutable:
			c.breaking(at, "became immutable")
		default:
			c.breaking(at, "rule %q added", r.Rule)
		}
	}
}

func boolValue(b *bool) bool { return b != nil && *b }

// compareRest fails closed: it strips all facets that are compared elsewhere and reports
// any remaining difference as breaking.
func (c *changes) compareRest(old, new *extv1.JSONSchemaProps, at object.Path) {
	was, is := uncompared(old), uncompared(new)
	for _, facet := range []struct {
		name    string
		was, is any
	}{
		{"allOf", was.AllOf, is.AllOf}, {"anyOf", was.AnyOf, is.AnyOf}, {"oneOf", was.OneOf, is.OneOf}, {"not", was.Not, is.Not},
	} {
		if !apiequality.Semantic.DeepEqual(facet.was, facet.is) {
			c.breaking(at, "%s changed", facet.name)
		}
	}
	for _, s := range []*extv1.JSONSchemaProps{&was, &is} {
		s.AllOf, s.AnyOf, s.OneOf, s.Not = nil, nil, nil, nil
	}
	if !apiequality.Semantic.DeepEqual(was, is) {
		c.breaking(at, "the schema changed in an unknown way")
	}
}

// uncompared is s without the facets that other functions compare and without
// documentation.
func uncompared(s *extv1.JSONSchemaProps) extv1.JSONSchemaProps {
	r := *s
	r.Description, r.Title, r.Example, r.ExternalDocs = "", "", nil, nil
	r.Type, r.XIntOrString, r.Default = "", false, nil
	r.Enum, r.Pattern, r.Format, r.MultipleOf, r.Nullable = nil, "", "", nil, false
	r.Minimum, r.ExclusiveMinimum, r.Maximum, r.ExclusiveMaximum = nil, false, nil, false
	r.MinLength, r.MaxLength, r.MinItems, r.MaxItems, r.MinProperties, r.MaxProperties = nil, nil, nil, nil, nil, nil
	r.XPreserveUnknownFields, r.XEmbeddedResource = nil, false
	r.XListType, r.XMapType, r.XListMapKeys, r.XValidations = nil, nil, nil, nil
	r.Properties, r.Required, r.AdditionalProperties = nil, nil, nil
	if r.Items != nil && len(r.Items.JSONSchemas) == 0 {
		r.Items = nil
	} else if r.Items != nil {
		r.Items = &extv1.JSONSchemaPropsOrArray{JSONSchemas: r.Items.JSONSchemas}
	}
	return r
}
