package kind

import (
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/graph/schema"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

// Breaking lists the breaking changes from current to next: valid instances would be
// refused or lose data, or status fields or a scale subresource that clients may use would disappear.
//
// A status field that becomes typed or untyped is not a breaking change: it is untyped only
// while the kind that it is read from is not installed.
func Breaking(current, next *apiextensionsv1.CustomResourceDefinition) []schema.Change {
	var out []schema.Change
	if current.Spec.Scope != next.Spec.Scope {
		out = append(out, schema.Change{Path: "spec.schema.scope", Breaking: true,
			Description: "scope changed from " + string(current.Spec.Scope) + " to " + string(next.Spec.Scope)})
	}
	for _, served := range current.Spec.Versions {
		i := slices.IndexFunc(next.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == served.Name })
		if i < 0 {
			if served.Served {
				out = append(out, schema.Change{Path: "spec.schema.apiVersion", Breaking: true,
					Description: "version " + served.Name + " is no longer served; list it in spec.schema.versions, with served: false before it goes"})
			}
			continue
		}
		out = append(out, breakingSchemaChanges(served, next.Spec.Versions[i])...)
		if scales(served) && !scales(next.Spec.Versions[i]) {
			out = append(out, schema.Change{Path: versionPath(next.Spec.Versions[i]).Field("spec"), Breaking: true,
				Description: "no field has the marker scale any more: autoscalers of the instances would stop"})
		}
	}
	return out
}

// MissingFields lists what instances of another state of the kind have that the current CustomResourceDefinition does
// not allow: if the list is empty, it can serve instances of both states. It compares only the storage version:
// instances are composed in it.
func MissingFields(current, other *apiextensionsv1.CustomResourceDefinition) []schema.Change {
	stored := *other
	stored.Spec.Versions = slices.DeleteFunc(slices.Clone(other.Spec.Versions), func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return !v.Storage })
	return Breaking(&stored, current)
}

// WithVersionsOf returns wanted with the versions of current and their conversion rules, so replacing current removes
// no field and no version.
func WithVersionsOf(wanted, current *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	out, kept := wanted.DeepCopy(), current.DeepCopy()
	out.Spec.Versions = kept.Spec.Versions
	delete(out.Annotations, install.ConversionsAnnotation)
	if rules := kept.Annotations[install.ConversionsAnnotation]; rules != "" {
		metav1.SetMetaDataAnnotation(&out.ObjectMeta, install.ConversionsAnnotation, rules)
	}
	return out
}

func scales(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
	return v.Subresources != nil && v.Subresources.Scale != nil
}

// versionPath is where a definition has the version.
func versionPath(v apiextensionsv1.CustomResourceDefinitionVersion) object.Path {
	if v.Storage {
		return "spec.schema"
	}
	return object.Path("spec.schema.versions").Field(v.Name)
}

func breakingSchemaChanges(current, next apiextensionsv1.CustomResourceDefinitionVersion) []schema.Change {
	var out []schema.Change
	if current.Schema == nil || next.Schema == nil || current.Schema.OpenAPIV3Schema == nil || next.Schema.OpenAPIV3Schema == nil {
		return nil
	}
	at := versionPath(next)
	for _, part := range []string{"spec", "status"} {
		old, had := current.Schema.OpenAPIV3Schema.Properties[part]
		fresh, has := next.Schema.OpenAPIV3Schema.Properties[part]
		if !had || !has {
			continue
		}
		if equality.Semantic.DeepEqual(old, fresh) {
			continue // as in nearly every reconcile
		}
		if part == "status" {
			if !current.Storage {
				continue // it is the same in all versions
			}
			at, old, fresh = "spec.schema", withTypesOf(old, fresh), withTypesOf(fresh, old)
		}
		for _, change := range schema.Compare(&old, &fresh, at.Field(part)) {
			if change.Breaking {
				out = append(out, change)
			}
		}
	}
	return out
}

// withTypesOf returns old with its untyped fields replaced by those of next, so they do not differ. The result shares
// parts with both and must not be changed.
func withTypesOf(old, next apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	if isUntyped(old) {
		return next
	}
	out := old
	out.Properties = maps.Clone(old.Properties)
	for name, field := range old.Properties {
		if fresh, ok := next.Properties[name]; ok {
			out.Properties[name] = withTypesOf(field, fresh)
		}
	}
	if out.Items != nil && out.Items.Schema != nil && next.Items != nil && next.Items.Schema != nil {
		item := withTypesOf(*out.Items.Schema, *next.Items.Schema)
		out.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}
	}
	return out
}

func isUntyped(s apiextensionsv1.JSONSchemaProps) bool {
	return s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields && len(s.Properties) == 0 && (s.Type == "" || s.Type == "object")
}
