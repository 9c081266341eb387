package crd

import (
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
)

// Labels are the labels that mark a CustomResourceDefinition as owned by a definition.
func Labels(owner object.Definition, version string) map[string]string {
	labels := map[string]string{
		v1alpha1.OwnedLabel:          "true",
		v1alpha1.VersionLabel:        object.LabelValue(version),
		v1alpha1.DefinitionIDLabel:   string(owner.UID),
		v1alpha1.DefinitionNameLabel: object.LabelValue(owner.Name),
	}
	if owner.Namespace != "" {
		labels[v1alpha1.DefinitionNSLabel] = owner.Namespace
	}
	return labels
}

// IsReservedLabel reports whether a label marks the owner of an object. If an author could set it, the
// CustomResourceDefinition would seem to belong to another definition or to an instance. The value does not matter.
func IsReservedLabel(label, _ string) bool {
	return strings.HasPrefix(label, v1alpha1.Prefix) || label == v1alpha1.ApplySetPartOfLabel
}

// IsReservedAnnotation reports whether a definition cannot put an annotation on its CustomResourceDefinition, as
// object.KindAnnotationProblem explains. The value does not matter.
func IsReservedAnnotation(annotation, _ string) bool {
	return object.KindAnnotationProblem(annotation) != ""
}

// DefinitionAnnotation holds the full name of the definition: a label value is too short
// for some names.
const DefinitionAnnotation = "espalier.dev/definition"

// Owner returns the definition that owns a CustomResourceDefinition, if one of ours does.
// The name may be truncated if only the label holds it. A CustomResourceDefinition that is
// a resource of an instance is owned by that instance, and no definition serves its kind.
func Owner(c *apiextensionsv1.CustomResourceDefinition) (owner object.Definition, owned bool) {
	if c.Labels[v1alpha1.OwnedLabel] != "true" || c.Labels[v1alpha1.NodeIDLabel] != "" {
		return object.Definition{}, false
	}
	owner = object.Definition{
		Name:      c.Labels[v1alpha1.DefinitionNameLabel],
		Namespace: c.Labels[v1alpha1.DefinitionNSLabel],
	}
	// An annotation that contradicts the label was not written by us.
	if full := c.Annotations[DefinitionAnnotation]; object.LabelValue(full) == owner.Name && full != "" {
		owner.Name = full
	}
	return owner, true
}

// BelongsTo reports whether the CustomResourceDefinition is owned by the definition, in any incarnation.
func BelongsTo(c *apiextensionsv1.CustomResourceDefinition, d object.Definition) bool {
	owner, owned := Owner(c)
	return owned && owner.Namespace == d.Namespace && (owner.Name == d.Name || owner.Name == object.LabelValue(d.Name))
}

// IsEstablished reports whether the API server serves the kind.
func IsEstablished(c *apiextensionsv1.CustomResourceDefinition) bool {
	for _, cond := range c.Status.Conditions {
		if cond.Type == apiextensionsv1.Established {
			return cond.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}
