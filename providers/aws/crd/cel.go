package crd

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// mayNotWrite is true in the spec of a resource that is neither created nor updated, only observed. mayNotCreate is true in
// an object that exists in AWS or is never created.
const (
	mayNotWrite  = `!('*' in self.managementPolicies || 'Create' in self.managementPolicies || 'Update' in self.managementPolicies)`
	mayNotCreate = `has(self.status) && has(self.status.atProvider) || !('*' in self.spec.managementPolicies || 'Create' in self.spec.managementPolicies)`
)

// The properties may also be set by initProvider or a sibling.
func (c *converter) requireProperties(spec *apiextensionsv1.JSONSchemaProps) {
	properties := spec.Properties["forProvider"]
	required, others := requirements(c.merge([]*resourcetype.Schema{&c.t.Schema}))
	slices.Sort(required)
	for _, name := range required {
		message := "spec.forProvider." + name + " is required"
		if fields := c.fields(properties, nil, name); len(fields) > 1 || len(fields) == 1 && fields[0] != name {
			message += ": set " + orList(fields)
		}
		c.requireSet(spec, properties, [][]string{{name}}, message)
	}
	for _, r := range others {
		var words []string
		for _, names := range r.sets {
			var set []string
			for _, name := range names {
				set = append(set, c.choice(properties, nil, name))
			}
			words = append(words, strings.Join(set, " and "))
		}
		c.requireSet(spec, properties, r.sets, "spec.forProvider needs one of these: "+strings.Join(words, "; "))
	}
}

func orList(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// The fields beside it can give it its value.
func (c *converter) choice(object apiextensionsv1.JSONSchemaProps, path resourcetype.Path, name string) string {
	fields := slices.DeleteFunc(c.fields(object, path, name), func(field string) bool { return field == name })
	if len(fields) == 0 {
		return name
	}
	return name + " (or " + orList(fields) + ")"
}

// Expressions do not see fields that can have any type. If there is such a field, the rule is a part of the schema,
// with a worse message.
func (c *converter) requireSet(spec *apiextensionsv1.JSONSchemaProps, properties apiextensionsv1.JSONSchemaProps, sets [][]string, message string) {
	var expressions []string
	alternatives := []apiextensionsv1.JSONSchemaProps{{Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"managementPolicies": {Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{
			Enum: []apiextensionsv1.JSON{{Raw: []byte(`"Observe"`)}, {Raw: []byte(`"Delete"`)}, {Raw: []byte(`"LateInitialize"`)}},
		}}},
	}}}
	areVisible := true
	for _, names := range sets {
		var expression []string
		var all apiextensionsv1.JSONSchemaProps
		for _, name := range names {
			fields := c.fields(properties, nil, name)
			if len(fields) == 0 {
				continue
			}
			if c.isNamedByMetadata(name) {
				return
			}
			each, either := "", apiextensionsv1.JSONSchemaProps{}
			for _, field := range fields {
				areVisible = areVisible && escape(field) != "" && isVisible(properties.Properties[field])
				for _, part := range []string{"forProvider", "initProvider"} {
					each += fmt.Sprintf(" || has(self.%[1]s) && has(self.%[1]s.%[2]s)", part, escape(field))
					either.AnyOf = append(either.AnyOf, apiextensionsv1.JSONSchemaProps{
						Required:   []string{part},
						Properties: map[string]apiextensionsv1.JSONSchemaProps{part: {Required: []string{field}}},
					})
				}
			}
			each = strings.ReplaceAll(strings.TrimPrefix(each, " || "), "has(self.forProvider) && ", "")
			expression = append(expression, "("+each+")")
			all.AllOf = append(all.AllOf, either)
		}
		if len(expression) == 0 {
			return // What this set needs is not part of the desired state.
		}
		expressions = append(expressions, strings.Join(expression, " && "))
		if len(all.AllOf) == 1 {
			alternatives = append(alternatives, all.AllOf[0].AnyOf...)
		} else {
			alternatives = append(alternatives, all)
		}
	}
	if areVisible {
		addRule(spec, apiextensionsv1.ValidationRule{Rule: mayNotWrite + " || " + strings.Join(expressions, " || "), Message: message})
	} else {
		spec.AllOf = append(spec.AllOf, apiextensionsv1.JSONSchemaProps{AnyOf: alternatives})
	}
}

// The schema must not contain one with the same expression: expressions are the keys of the list, and server-side apply
// refuses one that is there twice. Schemas say the same in several ways.
func addRule(s *apiextensionsv1.JSONSchemaProps, rule apiextensionsv1.ValidationRule) {
	if !slices.ContainsFunc(s.XValidations, func(has apiextensionsv1.ValidationRule) bool { return has.Rule == rule.Rule }) {
		s.XValidations = append(s.XValidations, rule)
	}
}

func isVisible(s apiextensionsv1.JSONSchemaProps) bool { return s.Type != "" || s.XIntOrString }

// metadata.name stands for the last part of an identifier that the caller chooses if it is not set.
func (c *converter) isNamedByMetadata(name string) bool {
	for _, path := range c.t.PrimaryIdentifier {
		if resourcetype.Has(c.t.ReadOnlyProperties, path) {
			return false
		}
	}
	return slices.Equal(c.t.PrimaryIdentifier[len(c.t.PrimaryIdentifier)-1], resourcetype.Path{name})
}

// forbidChanges adds rules to the object that properties cannot be changed once the resource exists: neither unset nor
// set to something else than before or than AWS says. To set one that was not set is allowed, because the provider
// itself sets what AWS has chosen.
func (c *converter) forbidChanges(object *apiextensionsv1.JSONSchemaProps, kind string) {
	for _, path := range c.t.ConditionalCreateOnlyProperties {
		if !c.hides(path) {
			c.lose(path, ConditionalCreateOnly)
		}
	}
	desired := object.Properties["spec"].Properties["forProvider"]
	observed := object.Properties["status"].Properties["atProvider"]
	paths := slices.Clone(c.t.CreateOnlyProperties)
	slices.SortFunc(paths, func(a, b resourcetype.Path) int { return strings.Compare(a.String(), b.String()) })
	for i, path := range paths {
		isCovered := slices.ContainsFunc(paths, func(p resourcetype.Path) bool {
			return len(p) < len(path) && resourcetype.Has([]resourcetype.Path{p}, path)
		})
		if isCovered || i > 0 && slices.Equal(paths[i-1], path) || c.hides(path) {
			continue
		}
		leaf, ok := lookup(desired, path)
		if !ok {
			c.lose(path, CreateOnly)
			continue
		}
		for inner := range slices.Chunk(c.leaves(leaf, path), maxLeaves) {
			var unchanged []string
			for _, each := range inner {
				unchanged = append(unchanged, isUnchanged(desired, observed, each))
			}
			addRule(object, apiextensionsv1.ValidationRule{
				Rule: "!has(self.status) || !has(self.status.atProvider) || " + strings.Join(unchanged, " && "),
				Message: fmt.Sprintf("%s can only be set when the resource is created: keep its value, or delete this %s and create another one",
					path, kind),
				FieldPath: ".spec.forProvider." + path.String(),
			})
		}
	}
}

// maxLeaves is how many values one rule compares. The API server limits the length of rules.
const maxLeaves = 16

// leaves returns the paths of the values in an object, or the path of another value. Objects are not compared as a
// whole, because the provider sets in them what AWS has chosen.
func (c *converter) leaves(s apiextensionsv1.JSONSchemaProps, path resourcetype.Path) []resourcetype.Path {
	if s.Type != "object" || len(s.Properties) == 0 {
		return []resourcetype.Path{path}
	}
	var siblings []string
	for name := range s.Properties {
		siblings = append(siblings, c.siblings.of(append(slices.Clip(path), name))...)
	}
	var out []resourcetype.Path
	for _, name := range sortedKeys(s.Properties) {
		inner := append(slices.Clip(path), name)
		if slices.Contains(siblings, name) || c.replacedBy(path, name) {
			continue
		}
		if leaf, ok := lookup(s, resourcetype.Path{name}); ok {
			out = append(out, c.leaves(leaf, inner)...)
		} else {
			c.lose(inner, CreateOnly)
		}
	}
	return out
}

func (c *converter) replacedBy(path resourcetype.Path, field string) bool {
	name, isSecret := strings.CutSuffix(field, SecretRefSuffix)
	return isSecret && c.siblings.replaced(append(slices.Clip(path), name))
}

// isUnchanged returns an expression that is true if a value was not set before, is as before, or is what AWS says.
func isUnchanged(desired, observed apiextensionsv1.JSONSchemaProps, path resourcetype.Path) string {
	oldHas, oldValue := access("oldSelf.spec.forProvider", path)
	newHas, newValue := access("self.spec.forProvider", path)
	same := newValue + " == " + oldValue
	leaf, _ := lookup(desired, path)
	if seen, ok := lookup(observed, path); ok && isComparable(leaf, seen) {
		has, value := access("self.status.atProvider", path)
		same = fmt.Sprintf("(%s || %s && %s == %s)", same, has, newValue, value)
	}
	return fmt.Sprintf("(!(%s) || %s && %s)", oldHas, newHas, same)
}

// Rules can compare the value at the path: expressions can have its names, and its content is described.
func lookup(s apiextensionsv1.JSONSchemaProps, path resourcetype.Path) (apiextensionsv1.JSONSchemaProps, bool) {
	for _, name := range path {
		child, has := s.Properties[name]
		if !has || escape(name) != name {
			return s, false
		}
		s = child
	}
	isDescribed := s.Type != "" || s.XIntOrString
	isOpen := s.XPreserveUnknownFields != nil && len(s.Properties) == 0 ||
		s.Items != nil && s.Items.Schema.XPreserveUnknownFields != nil
	return s, isDescribed && !isOpen
}

// Expressions see values of both as the same simple type.
func isComparable(a, b apiextensionsv1.JSONSchemaProps) bool {
	return a.Type == b.Type && a.Format == b.Format && slices.Contains([]string{"string", "integer", "boolean"}, a.Type)
}

// has is true if there is a value.
func access(root string, names []string) (has, value string) {
	var all []string
	value = root
	for _, name := range names {
		value += "." + name
		all = append(all, "has("+value+")")
	}
	return strings.Join(all, " && "), value
}

// reserved are words that expressions cannot use as names of fields.
var reserved = []string{
	"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
	"let", "loop", "package", "namespace", "return", "var", "void", "while",
}

// It is empty if expressions cannot write the name.
func escape(name string) string {
	if slices.Contains(reserved, name) {
		return "__" + name + "__"
	}
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		return ""
	}
	for _, r := range name {
		if r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') {
			return ""
		}
	}
	return strings.ReplaceAll(name, "__", "__underscores__")
}
