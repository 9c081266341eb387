package xrd

import (
	"maps"
	"slices"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/kube/crd"
)

// Categories that kinds are listed under, besides the author's.
const (
	compositeCategory = "composite"
	claimCategory     = "claim"
)

// CompositeCRD makes the CustomResourceDefinition of a definition's composite kind, which is
// controlled by the definition. If the definition is invalid, it returns all problems.
func CompositeCRD(d *v1.CompositeResourceDefinition, o Options) (*extv1.CustomResourceDefinition, diag.List) {
	if problems := Validate(d); len(problems) > 0 {
		return nil, problems
	}
	return compositeCRD(d, o), nil
}

// ClaimCRD makes the CustomResourceDefinition of a definition's claim kind; nil if the
// definition offers no claims. If the definition is invalid, it returns all problems.
func ClaimCRD(d *v1.CompositeResourceDefinition, o Options) (*extv1.CustomResourceDefinition, diag.List) {
	if problems := Validate(d); len(problems) > 0 {
		return nil, problems
	}
	if d.Spec.ClaimNames == nil {
		return nil, nil
	}
	return claimCRD(d, o), nil
}

func compositeCRD(d *v1.CompositeResourceDefinition, o Options) *extv1.CustomResourceDefinition {
	scope := d.ScopeOrDefault()
	out := newCRD(d, d.Spec.Names, compositeCategory, func(v *extv1.CustomResourceDefinitionVersion) {
		v.AdditionalPrinterColumns = append(v.AdditionalPrinterColumns, compositeColumns(scope, o.additionalColumns(d))...)
		addFields(v, compositeSpecSchemas(scope, d.Spec.DefaultCompositionUpdatePolicy), compositeStatusSchemas(scope), UndeclaredStatusFields(d))
	})
	out.Name = d.Name
	out.Spec.Scope = extv1.ClusterScoped
	if scope == v1.NamespacedScope {
		out.Spec.Scope = extv1.NamespaceScoped
	}
	return out
}

func claimCRD(d *v1.CompositeResourceDefinition, o Options) *extv1.CustomResourceDefinition {
	out := newCRD(d, *d.Spec.ClaimNames, claimCategory, func(v *extv1.CustomResourceDefinitionVersion) {
		v.AdditionalPrinterColumns = append(v.AdditionalPrinterColumns, claimColumns(o.additionalColumns(d))...)
		addFields(v, claimSpecSchemas(d.Spec.DefaultCompositeDeletePolicy), claimStatusSchemas(), UndeclaredStatusFields(d))
	})
	out.Spec.Scope = extv1.NamespaceScoped
	return out
}

// newCRD makes the common part of both CustomResourceDefinitions; finish completes each
// version.
func newCRD(d *v1.CompositeResourceDefinition, names extv1.CustomResourceDefinitionNames, category string,
	finish func(*extv1.CustomResourceDefinitionVersion)) *extv1.CustomResourceDefinition {
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
		maps.DeleteFunc(out.Annotations, crd.IsReservedAnnotation) // of definitions that were accepted before these were refused
	}
	for i := range d.Spec.Versions {
		v := crdVersion(&d.Spec.Versions[i])
		finish(&v)
		out.Spec.Versions = append(out.Spec.Versions, v)
	}
	return out
}

// kindLabels are the labels of the CustomResourceDefinitions: the definition's labels and those of its spec.metadata,
// without the labels that mark the owner of an object. Nil if there are none.
func kindLabels(d *v1.CompositeResourceDefinition) map[string]string {
	out := map[string]string{}
	maps.Copy(out, d.Labels)
	if d.Spec.Metadata != nil {
		maps.Copy(out, d.Spec.Metadata.Labels)
	}
	maps.DeleteFunc(out, crd.IsReservedLabel)
	if len(out) == 0 {
		return nil
	}
	return out
}

// crdVersion is the author's part of a version, without Crossplane's fields.
func crdVersion(v *v1.DefinitionVersion) extv1.CustomResourceDefinitionVersion {
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

// addFields adds Crossplane's fields to the author's; they replace author's fields of the
// same name.
func addFields(v *extv1.CustomResourceDefinitionVersion, spec, status schemas, progress report.FieldSet) {
	root := v.Schema.OpenAPIV3Schema
	maps.Copy(root.Properties["spec"].Properties, spec)
	maps.Copy(root.Properties["status"].Properties, status)
	maps.Copy(root.Properties["status"].Properties, progressSchemas(progress))
	ofStatus := root.Properties["status"]
	report.SetDefault(&ofStatus, progress)
	root.Properties["status"] = ofStatus
}
