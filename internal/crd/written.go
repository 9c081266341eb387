package crd

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/plan"
)

// GroupKind is the kind that a CustomResourceDefinition is of.
func GroupKind(c *apiextensionsv1.CustomResourceDefinition) schema.GroupKind {
	return schema.GroupKind{Group: c.Spec.Group, Kind: c.Spec.Names.Kind}
}

// Decode reads a CustomResourceDefinition from an answer of the API server.
func Decode(u *unstructured.Unstructured) (*apiextensionsv1.CustomResourceDefinition, error) {
	out := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out); err != nil {
		return nil, fmt.Errorf("decode CustomResourceDefinition %s: %w", u.GetName(), err)
	}
	return out, nil
}

// Configuration is the CustomResourceDefinition as a signed apply configuration.
func Configuration(c *apiextensionsv1.CustomResourceDefinition) (*unstructured.Unstructured, error) {
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
	if err != nil {
		return nil, fmt.Errorf("encode CustomResourceDefinition %s: %w", c.Name, err)
	}
	u := &unstructured.Unstructured{Object: raw}
	unstructured.RemoveNestedField(u.Object, "status")
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	inventory.Sign(u, u.GetLabels()[v1alpha1.VersionLabel])
	return u, nil
}

// AsApplied says whether a CustomResourceDefinition is what was applied, and nobody has
// changed it since.
func AsApplied(current *apiextensionsv1.CustomResourceDefinition, wanted *unstructured.Unstructured) bool {
	if current.Annotations[v1alpha1.AppliedAnnotation] != wanted.GetAnnotations()[v1alpha1.AppliedAnnotation] {
		return false
	}
	owned := &unstructured.Unstructured{Object: map[string]any{}}
	owned.SetManagedFields(current.ManagedFields)
	if len(current.OwnerReferences) > 0 {
		owned.SetOwnerReferences(current.OwnerReferences)
	}
	return len(plan.Lost(wanted, owned, v1alpha1.InstanceManager)) == 0
}

// IsCompared says whether the CustomResourceDefinition is one that a definition of ours
// is compared with: then all of it counts.
func IsCompared(c *apiextensionsv1.CustomResourceDefinition) bool {
	if _, ours := c.Labels[v1alpha1.OwnedLabel]; ours {
		return true
	}
	_, signed := c.Annotations[v1alpha1.AppliedAnnotation]
	return signed && metav1.GetControllerOfNoCopy(c) != nil
}

// Establishing says why the API server doesn't serve the kind yet.
func Establishing(c *apiextensionsv1.CustomResourceDefinition) string {
	for _, cond := range c.Status.Conditions {
		if cond.Status == apiextensionsv1.ConditionFalse {
			return fmt.Sprintf("%s: %s", cond.Type, cond.Message)
		}
	}
	return "waiting for the API server to serve the kind"
}
