package install_test

import (
	"encoding/json"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

func TestACRDIsUpToDateUntilAnotherManagerChangesIt(t *testing.T) {
	wanted := func() *apiextensionsv1.CustomResourceDefinition {
		c := &apiextensionsv1.CustomResourceDefinition{}
		c.APIVersion, c.Kind, c.Name = "apiextensions.k8s.io/v1", "CustomResourceDefinition", "apps.example.com"
		c.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&metav1.ObjectMeta{Name: "x", UID: "x"}, v1alpha1.GroupVersion.WithKind("X"))}
		c.Spec.Group = "example.com"
		return c
	}
	for name, tc := range map[string]struct {
		change func(*apiextensionsv1.CustomResourceDefinition)
		want   bool
	}{
		"no other manager has":       {func(*apiextensionsv1.CustomResourceDefinition) {}, true},
		"its owner was removed":      {func(c *apiextensionsv1.CustomResourceDefinition) { c.OwnerReferences = nil }, false},
		"its owner was replaced":     {func(c *apiextensionsv1.CustomResourceDefinition) { c.OwnerReferences[0].UID = "y" }, false},
		"a field was taken over":     {func(c *apiextensionsv1.CustomResourceDefinition) { c.ManagedFields = nil }, false},
		"something else was applied": {func(c *apiextensionsv1.CustomResourceDefinition) { c.Annotations[v1alpha1.AppliedAnnotation] = "other" }, false},
		"an owner was added": {func(c *apiextensionsv1.CustomResourceDefinition) {
			c.OwnerReferences = append(c.OwnerReferences, metav1.OwnerReference{UID: "z"})
		}, true},
	} {
		configuration, err := install.Configuration(wanted())
		if err != nil {
			t.Fatal(err)
		}
		current, err := crd.Decode(configuration)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(fieldsOf(configuration.Object))
		if err != nil {
			t.Fatal(err)
		}
		current.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: v1alpha1.InstanceManager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: raw},
		}}
		tc.change(current)
		if got := install.IsUpToDate(current, configuration); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// fieldsOf is the FieldsV1 of a value whose lists are all owned as a whole.
func fieldsOf(value any) map[string]any {
	out := map[string]any{}
	if m, ok := value.(map[string]any); ok {
		for key, v := range m {
			out["f:"+key] = fieldsOf(v)
		}
	}
	return out
}
