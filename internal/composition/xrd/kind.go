package xrd

import (
	"maps"
	"slices"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/diag"
)

// Categories that kinds are listed under, besides the author's.
const (
	compositeCategory = "composite"
	claimCategory     = "claim"
)

// Composite makes the CustomResourceDefinition of a definition's composite kind. It
// returns all problems that there are, or else the CustomResourceDefinition, which is
// controlled by the definition.
func Composite(d *v1.CompositeResourceDefinition, o Options) (*extv1.CustomResourceDefinition, diag.List) {
	if problems := Validate(d); len(problems) > 0 {
		return nil, problems
	}
	return composite(d, o), nil
}

// Claim makes the CustomResourceDefinition of the kind that claims composites. It
// returns all problems that there are, or else the CustomResourceDefinition; neither
// if the definition offers no claims.
func Claim(d *v1.CompositeResourceDefinition, o Options) (*extv1.CustomResourceDefinition, diag.List) {
	if problems := Validate(d); len(problems) > 0 {
		return nil, problems
	}
	if d.Spec.ClaimNames == nil {
		return nil, nil
	}
	return claim(d, o), nil
}

func composite(d *v1.CompositeResourceDefinition, o Options) *extv1.CustomResourceDefinition {
	scope := d.ScopeOrDefault()
	out := kind(d, d.Spec.Names, compositeCategory, func(v *extv1.CustomResourceDefinitionVersion) {
		v.AdditionalPrinterColumns = append(v.AdditionalPrinterColumns, compositeColumns(scope, o.more(d))...)
		add(v, compositeSpec(scope, d.Spec.DefaultCompositionUpdatePolicy), compositeStatus(scope), progress(Room(d)))
	})
	out.Name = d.Name
	out.Spec.Scope = extv1.ClusterScoped
	if scope == v1.NamespacedScope {
		out.Spec.Scope = extv1.NamespaceScoped
	}
	return out
}

func claim(d *v1.CompositeResourceDefinition, o Options) *extv1.CustomResourceDefinition {
	out := kind(d, *d.Spec.ClaimNames, claimCategory, func(v *extv1.CustomResourceDefinitionVersion) {
		v.AdditionalPrinterColumns = append(v.AdditionalPrinterColumns, claimColumns(o.more(d))...)
		add(v, claimSpec(d.Spec.DefaultCompositeDeletePolicy), claimStatus(), progress(Room(d)))
	})
	out.Spec.Scope = extv1.NamespaceScoped
	return out
}

// kind is what both kinds have in common, with each version finished by the given
// function.
func kind(d *v1.CompositeResourceDefinition, names extv1.CustomResourceDefinitionNames, category string, finish func(*extv1.CustomResourceDefinitionVersion)) *extv1.CustomResourceDefinition {
	names = *names.DeepCopy()
	if !slices.Contains(names.Categories, category) {
		names.Categories = append(names.Categories, category)
	}
	out := &extv1.CustomResourceDefinition{
		TypeMeta: metav1.TypeMeta{APIVersion: extv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{
			Name:            names.Plural + "." + d.Spec.Group,
			Labels:          kindLabels(d),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, v1.GroupVersion.WithKind(v1.DefinitionKind))},
		},
		Spec: extv1.CustomResourceDefinitionSpec{Group: d.Spec.Group, Names: names, Conversion: d.Spec.Conversion.DeepCopy()},
	}
	if d.Spec.Metadata != nil {
		out.Annotations = maps.Clone(d.Spec.Metadata.Annotations)
	}
	for i := range d.Spec.Versions {
		v := version(&d.Spec.Versions[i])
		finish(&v)
		out.Spec.Versions = append(out.Spec.Versions, v)
	}
	return out
}

// kindLabels are the definition's, and those that it wants its kinds to have.
func kindLabels(d *v1.CompositeResourceDefinition) map[string]string {
	out := maps.Clone(d.Labels)
	if d.Spec.Metadata == nil || len(d.Spec.Metadata.Labels) == 0 {
		return out
	}
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, d.Spec.Metadata.Labels)
	return out
}

// version is a version as its author has it, without the machinery.
func version(v *v1.DefinitionVersion) extv1.CustomResourceDefinitionVersion {
	out := extv1.CustomResourceDefinitionVersion{
		Name:                     v.Name,
		Served:                   v.Served,
		Storage:                  v.Referenceable,
		Deprecated:               v.Deprecated != nil && *v.Deprecated,
		AdditionalPrinterColumns: slices.Clone(v.AdditionalPrinterColumns),
		Schema:                   &extv1.CustomResourceValidation{OpenAPIV3Schema: authorSchema(v)},
		Subresources:             &extv1.CustomResourceSubresources{Status: &extv1.CustomResourceSubresourceStatus{}},
	}
	if v.DeprecationWarning != nil {
		out.DeprecationWarning = new(*v.DeprecationWarning)
	}
	if v.Subresources != nil {
		out.Subresources.Scale = v.Subresources.Scale.DeepCopy()
	}
	return out
}

// add puts the machinery's fields beside the author's, in place of any of their names.
func add(v *extv1.CustomResourceDefinitionVersion, spec, status, progress fields) {
	root := v.Schema.OpenAPIV3Schema
	maps.Copy(root.Properties["spec"].Properties, spec)
	maps.Copy(root.Properties["status"].Properties, status)
	maps.Copy(root.Properties["status"].Properties, progress)
}
