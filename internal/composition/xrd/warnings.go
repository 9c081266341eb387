package xrd

import (
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// Warnings lists the parts of a definition's schemas that have no effect: fields with the names of Crossplane's
// fields, and keywords that are not copied into the CRDs. They don't keep the kinds from being served, because
// existing definitions have them.
func Warnings(d *v1.CompositeResourceDefinition) diag.List {
	var out diag.List
	scope := d.ScopeOrDefault()
	reserved := map[string][]schemas{"spec": {compositeSpecSchemas(scope, nil)}, "status": {compositeStatusSchemas(scope)}}
	if d.Spec.ClaimNames != nil {
		reserved["spec"] = append(reserved["spec"], claimSpecSchemas(nil))
	}
	for i := range d.Spec.Versions {
		author, err := parseSchema(&d.Spec.Versions[i])
		if err != nil {
			continue // Validate reports it
		}
		at := object.Path("spec.versions").Index(i).Field("schema", "openAPIV3Schema")
		for part, machinery := range reserved {
			for _, taken := range machinery {
				warnReserved(author.Properties[part].Properties, taken, at.Field("properties", part, "properties"), &out)
			}
			own := author.Properties[part]
			warnIgnored(own, part == "spec", at.Field("properties", part), &out)
		}
		if !isMetadataKept(author.Properties["metadata"]) {
			out.Addf(at.Field("properties", "metadata"), "has no effect except for the maximum length of names")
		}
	}
	return out.Sorted()
}

func warnReserved(author, machinery schemas, at object.Path, out *diag.List) {
	for name, field := range author {
		if own, taken := machinery[name]; taken && !equality.Semantic.DeepEqual(own, field) {
			out.Addf(at.Field(name), "is replaced by Crossplane's schema of the field")
		}
	}
}

func warnIgnored(s extv1.JSONSchemaProps, preserves bool, at object.Path, out *diag.List) {
	for _, keyword := range []struct {
		name string
		used bool
	}{
		{"allOf", len(s.AllOf) > 0}, {"anyOf", len(s.AnyOf) > 0}, {"not", s.Not != nil},
		{"default", s.Default != nil}, {"nullable", s.Nullable}, {"additionalProperties", s.AdditionalProperties != nil},
		{"minProperties", s.MinProperties != nil}, {"maxProperties", s.MaxProperties != nil},
		{"x-kubernetes-preserve-unknown-fields", s.XPreserveUnknownFields != nil && !preserves},
	} {
		if keyword.used {
			out.Addf(at.Field(keyword.name), "has no effect here")
		}
	}
}

func isMetadataKept(s extv1.JSONSchemaProps) bool {
	if len(s.Required) > 0 || len(s.XValidations) > 0 || len(s.Properties) > 1 {
		return false
	}
	name, has := s.Properties["name"]
	if len(s.Properties) == 1 && !has {
		return false
	}
	return name.Pattern == "" && name.MinLength == nil && len(name.Enum) == 0 && len(name.XValidations) == 0
}
