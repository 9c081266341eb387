package crd

import (
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// requirement is what must be set: all properties of at least one set; of just one if it is exclusive.
type requirement struct {
	sets      [][]string
	exclusive bool
}

// Single properties that each are required are in required.
func requirements(s merged) (required []string, out []requirement) {
	for _, each := range s.main {
		for _, name := range each.Required {
			if !slices.Contains(required, name) {
				required = append(required, name)
			}
		}
		for _, names := range [][]string{each.RequiredOr, each.RequiredXor} {
			if len(names) > 0 {
				r := requirement{}
				for _, name := range names {
					r.sets = append(r.sets, []string{name})
				}
				out = append(out, r)
			}
		}
	}
	for _, g := range s.groups {
		r := requirement{exclusive: g.exclusive}
		for _, each := range g.schemas {
			r.sets = append(r.sets, each.Required)
		}
		if !slices.ContainsFunc(r.sets, func(set []string) bool { return len(set) == 0 }) {
			out = append(out, r)
		}
	}
	return required, out
}

// require adds the requirements of an object below the properties of a type. Those of the properties
// themselves are rules of the spec, because they do not apply to resources that are only observed.
func (c *converter) require(out *apiextensionsv1.JSONSchemaProps, s merged, path resourcetype.Path) {
	for _, g := range s.groups {
		if slices.ContainsFunc(g.schemas, func(each *resourcetype.Schema) bool { return len(each.Properties) > 0 }) {
			c.lose(path, Alternatives)
		}
	}
	if len(path) == 0 {
		return
	}
	required, others := requirements(s)
	for _, name := range required {
		switch fields := c.fields(*out, path, name); {
		case len(fields) == 1:
			out.Required = append(out.Required, fields[0])
		case len(fields) > 1:
			out.AllOf = append(out.AllOf, apiextensionsv1.JSONSchemaProps{AnyOf: requireEach(fields)})
		}
	}
	slices.Sort(out.Required)
	for _, r := range others {
		c.requireOne(out, r, path)
	}
	c.exclude(out, s, path)
	if len(out.AllOf) == 1 && out.AnyOf == nil && out.OneOf == nil {
		out.AnyOf, out.OneOf, out.AllOf = out.AllOf[0].AnyOf, out.AllOf[0].OneOf, nil
	}
}

func (c *converter) requireOne(out *apiextensionsv1.JSONSchemaProps, r requirement, path resourcetype.Path) {
	var sets []apiextensionsv1.JSONSchemaProps
	for _, names := range r.sets {
		set := apiextensionsv1.JSONSchemaProps{}
		for _, name := range names {
			switch fields := c.fields(*out, path, name); {
			case len(fields) == 1:
				set.Required = append(set.Required, fields[0])
			case len(fields) > 1:
				set.AllOf = append(set.AllOf, apiextensionsv1.JSONSchemaProps{AnyOf: requireEach(fields)})
			}
		}
		if len(set.Required) == 0 && len(set.AllOf) == 0 {
			return // What this set needs is not part of the desired state.
		}
		sets = append(sets, set)
	}
	if r.exclusive && !overlap(r.sets) {
		out.AllOf = append(out.AllOf, apiextensionsv1.JSONSchemaProps{OneOf: sets})
		return
	}
	if r.exclusive {
		c.lose(path, Exclusion)
	}
	out.AllOf = append(out.AllOf, apiextensionsv1.JSONSchemaProps{AnyOf: sets})
}

// One set contains another, so both can be satisfied at once by what only one is meant for.
func overlap(sets [][]string) bool {
	for i, a := range sets {
		for j, b := range sets {
			if i != j && !slices.ContainsFunc(a, func(name string) bool { return !slices.Contains(b, name) }) {
				return true
			}
		}
	}
	return false
}

func requireEach(fields []string) []apiextensionsv1.JSONSchemaProps {
	var out []apiextensionsv1.JSONSchemaProps
	for _, field := range fields {
		out = append(out, apiextensionsv1.JSONSchemaProps{Required: []string{field}})
	}
	return out
}

// They are the property itself and its siblings, as far as the object has them.
func (c *converter) fields(object apiextensionsv1.JSONSchemaProps, path resourcetype.Path, name string) []string {
	var out []string
	for _, field := range append([]string{name}, c.siblings.of(append(slices.Clip(path), name))...) {
		if _, has := object.Properties[field]; has {
			out = append(out, field)
		}
	}
	return out
}
