package install

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/kube/crd"
)

// BindingKind is the kind of the bindings of InitialMetadataPolicy.
var BindingKind = schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingAdmissionPolicyBinding"}

// BindingName is the name of the binding of a CustomResourceDefinition.
func BindingName(definition string) string {
	return v1alpha1.InitialMetadataPolicy + "." + definition
}

// Binding returns the binding of InitialMetadataPolicy to the kind of a CustomResourceDefinition, its
// owner, as a signed apply configuration. The binding is also the parameter of the policy: it has the
// metadata as an annotation.
func Binding(c *apiextensionsv1.CustomResourceDefinition, initial inventory.Initial) *unstructured.Unstructured {
	name := BindingName(c.Name)
	o := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"policyName": v1alpha1.InitialMetadataPolicy,
			"paramRef":   map[string]any{"name": name, "parameterNotFoundAction": "Allow"},
			"matchResources": map[string]any{
				"matchPolicy": "Equivalent",
				"resourceRules": []any{map[string]any{
					"apiGroups": []any{c.Spec.Group}, "apiVersions": []any{"*"}, "resources": []any{c.Spec.Names.Plural},
					"operations": []any{"CREATE", "UPDATE"}, "scope": "*",
				}},
			},
		},
	}}
	o.SetGroupVersionKind(BindingKind)
	o.SetName(name)
	o.SetAnnotations(map[string]string{v1alpha1.InitialMetadataAnnotation: initial.Text()})
	o.SetLabels(map[string]string{v1alpha1.ManagedByLabel: "espalier"})
	o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: crd.Kind.GroupVersion().String(), Kind: crd.Kind.Kind, Name: c.Name, UID: c.UID}})
	inventory.Sign(o, "")
	return o
}
