package install_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

// TestABindingNamesItsKindAlone is about who else the policy could be applied to: nobody.
func TestABindingNamesItsKindAlone(t *testing.T) {
	c := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "webs.example.org", UID: "c"},
		Spec:       apiextensionsv1.CustomResourceDefinitionSpec{Group: "example.org", Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "webs", Kind: "Web"}},
	}
	initial := inventory.Initial{Finalizer: "kro.run/finalizer"}
	binding := install.Binding(c, initial)
	want := map[string]any{
		"policyName": "espalier-initial-metadata",
		"paramRef":   map[string]any{"name": "espalier-initial-metadata.webs.example.org", "parameterNotFoundAction": "Allow"},
		"matchResources": map[string]any{
			"matchPolicy": "Equivalent",
			"resourceRules": []any{map[string]any{
				"apiGroups": []any{"example.org"}, "apiVersions": []any{"*"}, "resources": []any{"webs"},
				"operations": []any{"CREATE", "UPDATE"}, "scope": "*",
			}},
		},
	}
	if diff := cmp.Diff(want, binding.Object["spec"]); diff != "" {
		t.Error(diff)
	}
	if refs := binding.GetOwnerReferences(); binding.GetName() != "espalier-initial-metadata.webs.example.org" || len(refs) != 1 || refs[0].UID != "c" {
		t.Errorf("binding %s of %v", binding.GetName(), refs)
	}
	if text := binding.GetAnnotations()["espalier.dev/initial-metadata"]; text != "finalizer=kro.run/finalizer" {
		t.Errorf("the parameter is %q", text)
	}
	if again := install.Binding(c, initial); inventory.AppliedDigest(again) == "" || inventory.AppliedDigest(again) != inventory.AppliedDigest(binding) {
		t.Error("it is written again though nothing has changed")
	}
}
