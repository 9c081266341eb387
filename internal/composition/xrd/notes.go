package xrd

import (
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// Notes lists what a definition says that its kinds will not have: fields whose names
// are the machinery's, and keywords that are not taken over. Nothing of it keeps the
// kinds from being served, since definitions that are in use have such things; but
// their authors may wonder.
func Notes(d *v1.CompositeResourceDefinition) diag.List {
	var out diag.List
	scope := d.ScopeOrDefault()
	reserved := map[string][]fields{"spec": {compositeSpec(scope, nil)}, "status": {compositeStatus(scope)}}
	if d.Spec.ClaimNames != nil {
		reserved["spec"] = append(reserved["spec"], claimSpec(nil))
	}
	for i := range d.Spec.Versions {
		author, err := parse(&d.Spec.Versions[i])
		if err != nil {
			continue // Validate tells
		}
		at := object.Path("spec.versions").Index(i).Field("schema", "openAPIV3Schema")
		for part, machinery := range reserved {
			for _, taken := range machinery {
				overwritten(author.Properties[part].Properties, taken, at.Field("properties", part, "properties"), &out)
			}
			own := author.Properties[part]
			dropped(own, part == "spec", at.Field("properties", part), &out)
		}
		if !plainMetadata(author.Properties["metadata"]) {
			out.Addf(at.Field("properties", "metadata"), "has no effect beyond how long a name may be")
		}
	}
	return out.Sorted()
}

func overwritten(author, machinery fields, at object.Path, out *diag.List) {
	for name, field := range author {
		if own, taken := machinery[name]; taken && !equality.Semantic.DeepEqual(own, field) {
			out.Addf(at.Field(name), "is a field of the machinery, whose schema takes the place of this one")
		}
	}
}

// dropped lists the keywords of a part that are not taken over.
func dropped(s extv1.JSONSchemaProps, preserves bool, at object.Path, out *diag.List) {
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

// plainMetadata says whether all of a schema of metadata is taken over.
func plainMetadata(s extv1.JSONSchemaProps) bool {
	if len(s.Required) > 0 || len(s.XValidations) > 0 || len(s.Properties) > 1 {
		return false
	}
	name, has := s.Properties["name"]
	if len(s.Properties) == 1 && !has {
		return false
	}
	return name.Pattern == "" && name.MinLength == nil && len(name.Enum) == 0 && len(name.XValidations) == 0
}
