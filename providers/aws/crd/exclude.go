package crd

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// The rules apply until the resource exists: afterwards, the desired state may have all that AWS returns beside each
// other.
func (c *converter) excludeProperties(object *apiextensionsv1.JSONSchemaProps) {
	desired := object.Properties["spec"].Properties["forProvider"]
	s := c.merge([]*resourcetype.Schema{&c.t.Schema})
	for _, each := range s.main {
		for _, e := range c.t.Exclusions(each) {
			if rule, ok := c.exclusionRule(e, desired, nil, isSetAtTop); ok {
				rule.Rule = mayNotCreate + " || " + rule.Rule
				addRule(object, rule)
			}
		}
	}
	_, others := requirements(s)
	for _, r := range others {
		if r.exclusive && slices.ContainsFunc(r.sets, func(set []string) bool { return len(set) > 1 }) {
			c.lose(nil, Exclusion) // alternatives of several properties
		}
	}
}

// exclude adds rules to an object below the properties of a type. Inside of lists, the API server's estimate of the
// cost of expressions is too high, so they are part of the schema, with a worse message.
func (c *converter) exclude(out *apiextensionsv1.JSONSchemaProps, s merged, path resourcetype.Path) {
	for _, each := range s.main {
		for _, e := range c.t.Exclusions(each) {
			switch rule, ok := c.exclusionRule(e, *out, path, isSetIn); {
			case e.IsAlternative || !ok: // alternatives are kept as such
			case !slices.Contains(path, resourcetype.Any):
				addRule(out, rule)
			default:
				c.excludeBySchema(out, e, path)
			}
		}
	}
}

func isSetAtTop(field string, isBoolean bool) string {
	return "(" + isSet("self.spec.forProvider", field, isBoolean) + " || has(self.spec.initProvider) && " + isSet("self.spec.initProvider", field, isBoolean) + ")"
}

func isSetIn(field string, isBoolean bool) string { return isSet("self", field, isBoolean) }

// A boolean that is false is as good as unset.
func isSet(object, field string, isBoolean bool) string {
	value := object + "." + escape(field)
	if isBoolean {
		return "has(" + value + ") && " + value
	}
	return "has(" + value + ")"
}

// It reports false if nothing is left to exclude, and records the loss if expressions do not see a property.
func (c *converter) exclusionRule(e resourcetype.Exclusion, object apiextensionsv1.JSONSchemaProps, path resourcetype.Path,
	isSet func(string, bool) string) (apiextensionsv1.ValidationRule, bool) {
	isVisibleHere := true
	conditions := func(names []string) (out, words []string) {
		for _, name := range names {
			var either []string
			for _, field := range c.fields(object, path, name) {
				isVisibleHere = isVisibleHere && escape(field) != "" && isVisible(object.Properties[field])
				either = append(either, isSet(field, object.Properties[field].Type == "boolean"))
			}
			if len(either) > 0 {
				out = append(out, strings.Join(either, " || "))
				words = append(words, c.choice(object, path, name))
			}
		}
		return out, words
	}
	first, names := conditions(e.Names)
	others, otherNames := conditions(e.Others)
	var rule apiextensionsv1.ValidationRule
	switch {
	case len(e.Others) == 0 && len(first) < 2, len(e.Others) > 0 && (len(first) == 0 || len(others) == 0):
		return rule, false
	case !isVisibleHere:
		c.lose(path, Exclusion)
		return rule, false
	case len(e.Others) > 0:
		rule.Rule = fmt.Sprintf("!(%s) || !(%s)", first[0], strings.Join(others, " || "))
		rule.Message = fmt.Sprintf("%s cannot be set beside %s: they exclude each other", names[0], strings.Join(otherNames, ", "))
	default:
		rule.Rule = "[" + strings.Join(first, ", ") + "].filter(isSet, isSet).size() <= 1"
		rule.Message = "only one of these can be set: " + strings.Join(names, "; ") + ": they exclude each other"
	}
	return rule, true
}

// No two of the properties may be set.
func (c *converter) excludeBySchema(out *apiextensionsv1.JSONSchemaProps, e resourcetype.Exclusion, path resourcetype.Path) {
	pairs := [][2]string{}
	for i, name := range e.Names {
		others := e.Others
		if len(others) == 0 {
			others = e.Names[i+1:]
		}
		for _, other := range others {
			pairs = append(pairs, [2]string{name, other})
		}
	}
	for _, pair := range pairs {
		var both []apiextensionsv1.JSONSchemaProps
		for _, name := range pair {
			fields := c.fields(*out, path, name)
			if slices.ContainsFunc(fields, func(field string) bool { return out.Properties[field].Type == "boolean" }) {
				c.lose(path, Exclusion) // false is as good as unset
				return
			}
			if len(fields) > 0 {
				both = append(both, apiextensionsv1.JSONSchemaProps{AnyOf: requireEach(fields)})
			}
		}
		if len(both) == 2 {
			out.AllOf = append(out.AllOf, apiextensionsv1.JSONSchemaProps{Not: &apiextensionsv1.JSONSchemaProps{AllOf: both}})
		}
	}
}
