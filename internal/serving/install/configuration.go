package install

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

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

// IsUpToDate reports whether a CustomResourceDefinition is what was applied, and unchanged by other managers.
func IsUpToDate(current *apiextensionsv1.CustomResourceDefinition, wanted *unstructured.Unstructured) bool {
	if current.Annotations[v1alpha1.AppliedAnnotation] != wanted.GetAnnotations()[v1alpha1.AppliedAnnotation] {
		return false
	}
	owned := &unstructured.Unstructured{Object: map[string]any{}}
	owned.SetManagedFields(current.ManagedFields)
	if len(current.OwnerReferences) > 0 {
		owned.SetOwnerReferences(current.OwnerReferences)
	}
	return len(plan.LostFields(wanted, owned, v1alpha1.InstanceManager)) == 0
}
