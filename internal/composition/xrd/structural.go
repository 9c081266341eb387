package xrd

import (
	"regexp"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// checkSchema checks the author's schema of a version, and then the complete schema with
// Crossplane's fields, which is what the API server checks and what rules see.
func checkSchema(d *v1.CompositeResourceDefinition, i int, at object.Path, out *diag.List) {
	author, err := parseSchema(&d.Spec.Versions[i])
	if err != nil {
		out.Addf(at, "%v", err)
		return
	}
	before := len(*out)
	checkKeywords(author, at, out)
	if len(*out) > before {
		return // the API server's code stops at the first of these, with a worse message
	}
	v := crdVersion(&d.Spec.Versions[i])
	scope := d.ScopeOrDefault()
	addFields(&v, compositeSpecSchemas(scope, nil), compositeStatusSchemas(scope), UndeclaredStatusFields(d))
	var internal apiextensions.JSONSchemaProps
	if err := extv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, &internal, nil); err != nil {
		out.Addf(at, "cannot be read: %v", err)
		return
	}
	s, err := structural.NewStructural(&internal)
	if err != nil {
		out.Addf(at, "is not structural: %v", err)
		return
	}
	for _, problem := range structural.ValidateStructural(nil, s) {
		out.Addf(fieldBelow(at, problem.Field), "%s", problem.ErrorBody())
	}
	if len(*out) == before {
		checkRules(s, at, true, out)
	}
}

var index = regexp.MustCompile(`\[([A-Za-z_$][^\]]*)\]`)

// fieldBelow is the path of a field that the API server's code names, below at.
func fieldBelow(at object.Path, field string) object.Path {
	if field == "" {
		return at
	}
	return at + object.Path("."+index.ReplaceAllString(field, ".$1"))
}

// types are the types of values; "" is allowed because other keywords can set the type.
var types = []string{"", "array", "boolean", "integer", "number", "object", "string"}

func checkKeywords(s *extv1.JSONSchemaProps, at object.Path, out *diag.List) {
	for _, keyword := range []struct {
		name string
		used bool
	}{
		{"$ref", s.Ref != nil && *s.Ref != ""},
		{"id", s.ID != ""},
		{"uniqueItems", s.UniqueItems},
		{"definitions", len(s.Definitions) > 0},
		{"dependencies", len(s.Dependencies) > 0},
		{"patternProperties", len(s.PatternProperties) > 0},
		{"additionalItems", s.AdditionalItems != nil},
	} {
		if keyword.used {
			out.Addf(at.Field(keyword.name), "cannot be used in the schema of a kind")
		}
	}
	if !slices.Contains(types, s.Type) {
		out.Add(diag.Diagnostic{Path: at.Field("type"), Problem: "there is no type " + s.Type, Nearest: diag.Nearest(s.Type, types)})
	}
	if s.AdditionalProperties != nil && len(s.Properties) > 0 {
		out.Addf(at.Field("additionalProperties"), "cannot be used together with properties")
	}
	if s.Items != nil && len(s.Items.JSONSchemas) > 0 {
		out.Addf(at.Field("items"), "must be one schema for all items, not a list of schemas")
	}
	visitChildren(s, at, func(child *extv1.JSONSchemaProps, at object.Path) { checkKeywords(child, at, out) })
}

// visitChildren visits only the schemas directly below s.
func visitChildren(s *extv1.JSONSchemaProps, at object.Path, visit func(*extv1.JSONSchemaProps, object.Path)) {
	for name, child := range s.Properties {
		visit(&child, at.Field("properties", name))
	}
	if s.Items != nil && s.Items.Schema != nil {
		visit(s.Items.Schema, at.Field("items"))
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		visit(s.AdditionalProperties.Schema, at.Field("additionalProperties"))
	}
	if s.Not != nil {
		visit(s.Not, at.Field("not"))
	}
	for name, several := range map[string][]extv1.JSONSchemaProps{"allOf": s.AllOf, "anyOf": s.AnyOf, "oneOf": s.OneOf} {
		for i := range several {
			visit(&several[i], at.Field(name).Index(i))
		}
	}
}
