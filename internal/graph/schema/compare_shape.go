package schema

import (
	"slices"
	"strings"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/espalier-dev/espalier/internal/object"
)

// compareShape compares how values are kept and merged. Any change of how a list
// or a map is merged is breaking: fields change owners, and items that were
// welcome twice are not.
func (c *changes) compareShape(old, new *extv1.JSONSchemaProps, at object.Path) {
	switch was, is := keepsUnknown(old), keepsUnknown(new); {
	case was && !is:
		c.breaking(at, "unknown fields are no longer kept")
	case !was && is:
		c.harmless(at, "unknown fields are kept")
	}
	if old.XEmbeddedResource != new.XEmbeddedResource {
		c.either(new.XEmbeddedResource, at, "%s an embedded resource", became(new.XEmbeddedResource))
	}
	if was, is := listType(old), listType(new); was != is {
		c.breaking(at, "list type changed from %s to %s", was, is)
	}
	if was, is := mapType(old), mapType(new); was != is {
		c.breaking(at, "map type changed from %s to %s", was, is)
	}
	if was, is := old.XListMapKeys, new.XListMapKeys; !slices.Equal(was, is) {
		c.breaking(at, "list keys changed from %s to %s", keys(was), keys(is))
	}
}

func became(yes bool) string {
	if yes {
		return "became"
	}
	return "no longer"
}

// mapType is how a map is merged; one that says nothing is merged key by key.
func mapType(s *extv1.JSONSchemaProps) string {
	if s.XMapType == nil {
		return "granular"
	}
	return *s.XMapType
}

func keys(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// compareRules compares rules by what they demand. That one rule demands less
// than another isn't decided: a changed rule is one lost and another added.
func (c *changes) compareRules(old, new *extv1.JSONSchemaProps, at object.Path) {
	demands := func(rules extv1.ValidationRules, r extv1.ValidationRule) bool {
		return slices.ContainsFunc(rules, func(o extv1.ValidationRule) bool {
			return o.Rule == r.Rule && unset(o.OptionalOldSelf) == unset(r.OptionalOldSelf)
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

func unset(b *bool) bool { return b != nil && *b }

// compareRest fails closed: it strips all that has been compared and takes any
// difference that is left for a breaking one.
func (c *changes) compareRest(old, new *extv1.JSONSchemaProps, at object.Path) {
	was, is := rest(old), rest(new)
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
		c.breaking(at, "the schema changed in a way that is not understood")
	}
}

// rest is s without what the other comparisons look at and what is only words.
func rest(s *extv1.JSONSchemaProps) extv1.JSONSchemaProps {
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
