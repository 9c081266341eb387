package xrd

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	v2 "github.com/espalier-dev/espalier/api/apiextensions/v2"
)

// Read decodes a definition of v1 or v2, from a file or from the API server, with the
// defaults of its version: the default scope of v2 is Namespaced.
func Read(o *unstructured.Unstructured) (*v1.CompositeResourceDefinition, error) {
	out := &v1.CompositeResourceDefinition{}
	version := o.GroupVersionKind().GroupVersion()
	if version != v1.GroupVersion && version != v2.GroupVersion {
		return nil, fmt.Errorf("%s %s: not a version of CompositeResourceDefinition", version, o.GetKind())
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out); err != nil {
		return nil, fmt.Errorf("decode CompositeResourceDefinition %s: %w", o.GetName(), err)
	}
	if out.Spec.Scope == "" {
		out.Spec.Scope = v1.LegacyClusterScope
		if version == v2.GroupVersion {
			out.Spec.Scope = v1.NamespacedScope
		}
	}
	// Objects are stored as v1, so both versions get the defaults of v1.
	if out.Spec.DefaultCompositionUpdatePolicy == nil {
		out.Spec.DefaultCompositionUpdatePolicy = new(v1.UpdateAutomatic)
	}
	if out.Spec.DefaultCompositeDeletePolicy == nil {
		out.Spec.DefaultCompositeDeletePolicy = new(v1.DeleteBackground)
	}
	out.SetGroupVersionKind(v1.GroupVersion.WithKind(v1.DefinitionKind))
	return out, nil
}
