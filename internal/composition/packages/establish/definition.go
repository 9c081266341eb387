package establish

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	apiextensions "github.com/espalier-dev/espalier/api/apiextensions/v1alpha1"
)

// configurations are the kinds of the configuration of a provider, and of its uses: they are no managed resources, and every
// provider needs them.
var configurations = []string{"ProviderConfig", "ProviderConfigUsage", "ClusterProviderConfig", "ClusterProviderConfigUsage"}

// ManagedDefinitionOf returns the ManagedResourceDefinition that installs a CustomResourceDefinition of a provider while it is active;
// nil for an object that is none, or not of a managed resource.
func ManagedDefinitionOf(o *unstructured.Unstructured) *unstructured.Unstructured {
	kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
	if o.GetAPIVersion() != "apiextensions.k8s.io/v1" || o.GetKind() != "CustomResourceDefinition" || slices.Contains(configurations, kind) {
		return nil
	}
	out := &unstructured.Unstructured{Object: maps.Clone(o.Object)}
	delete(out.Object, "status")
	out.SetGroupVersionKind(apiextensions.GroupVersion.WithKind(apiextensions.ManagedResourceDefinitionKind))
	return out
}
