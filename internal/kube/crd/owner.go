package crd

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
)

// Labels mark a CustomResourceDefinition as a definition's own.
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

// DefinitionAnnotation holds the name of the definition in full: a label's value
// has no room for all names.
const DefinitionAnnotation = "espalier.dev/definition"

// Owner says who a CustomResourceDefinition belongs to: a definition, by name,
// or nobody here. The name of a definition may be shortened where only the label
// tells it. One that is a resource of an instance is owned by that, and no definition
// serves its kind.
func Owner(c *apiextensionsv1.CustomResourceDefinition) (owner object.Definition, owned bool) {
	if c.Labels[v1alpha1.OwnedLabel] != "true" || c.Labels[v1alpha1.NodeIDLabel] != "" {
		return object.Definition{}, false
	}
	owner = object.Definition{
		Name:      c.Labels[v1alpha1.DefinitionNameLabel],
		Namespace: c.Labels[v1alpha1.DefinitionNSLabel],
	}
	// An annotation that contradicts the label is somebody else's doing.
	if full := c.Annotations[DefinitionAnnotation]; object.LabelValue(full) == owner.Name && full != "" {
		owner.Name = full
	}
	return owner, true
}

// BelongsTo says whether the CustomResourceDefinition is that of the definition,
// in whatever incarnation.
func BelongsTo(c *apiextensionsv1.CustomResourceDefinition, d object.Definition) bool {
	owner, owned := Owner(c)
	return owned && owner.Namespace == d.Namespace && (owner.Name == d.Name || owner.Name == object.LabelValue(d.Name))
}

// Established says whether the API server serves the kind.
func Established(c *apiextensionsv1.CustomResourceDefinition) bool {
	for _, cond := range c.Status.Conditions {
		if cond.Type == apiextensionsv1.Established {
			return cond.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}
