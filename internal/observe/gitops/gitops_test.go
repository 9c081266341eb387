package gitops_test

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/observe/gitops"
)

func kind(group, name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: "v1", Kind: name}
}

// definition is the CustomResourceDefinition of a kind with the given fields in its status.
func definition(group, name string, labels map[string]string, fields ...string) *apiextensionsv1.CustomResourceDefinition {
	status := apiextensionsv1.JSONSchemaProps{Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
	for _, field := range fields {
		status.Properties[field] = apiextensionsv1.JSONSchemaProps{}
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: name},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v0"}, {
				Name: "v1", Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Properties: map[string]apiextensionsv1.JSONSchemaProps{"status": status}}},
			}},
		},
	}
}

func TestKindsHaveConditions(t *testing.T) {
	got := gitops.Kinds([]*apiextensionsv1.CustomResourceDefinition{
		definition("b.example.org", "Vpc", nil, "conditions", "id"), definition("a.example.org", "Config", nil, "users"),
		definition("a.example.org", "Net", nil, "conditions"), definition("a.example.org", "Net", nil, "conditions"),
	})
	if diff := cmp.Diff([]schema.GroupVersionKind{kind("a.example.org", "Net"), kind("b.example.org", "Vpc")}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestIsOurs(t *testing.T) {
	controller := true
	composite := definition("example.org", "App", nil, "conditions")
	composite.OwnerReferences = []metav1.OwnerReference{{Kind: "CompositeResourceDefinition", Controller: &controller}}
	for name, tc := range map[string]struct {
		crd  *apiextensionsv1.CustomResourceDefinition
		ours bool
	}{
		"a kind of a graph":            {definition("example.org", "Vpc", map[string]string{"kro.run/owned": "true"}, "conditions"), true},
		"a CRD that an instance has":   {definition("example.org", "Vpc", map[string]string{"kro.run/owned": "true", "kro.run/node-id": "crd"}, "conditions"), false},
		"a kind of a composite":        {composite, true},
		"a provider's kind":            {definition("sandbox.espalier.dev", "Network", nil, "conditions"), true},
		"another author's provider":    {definition("files.example.org", "File", nil, "conditions", "lastHandledReconcileAt"), true},
		"Graphs":                       {definition("kro.run", "Graph", nil, "conditions"), true},
		"a kind of another program":    {definition("cert-manager.io", "Certificate", nil, "conditions"), false},
		"a group whose name only ends": {definition("notespalier.dev", "Note", nil, "conditions"), false},
	} {
		if got := gitops.IsOurs(tc.crd); got != tc.ours {
			t.Errorf("%s: want %t, got %t", name, tc.ours, got)
		}
	}
}

func TestSelect(t *testing.T) {
	all := []schema.GroupVersionKind{kind("a.example.org", "Net"), kind("b.example.org", "Net"), kind("b.example.org", "Vpc")}
	for name, tc := range map[string]struct {
		names []string
		want  []schema.GroupVersionKind
		err   string
	}{
		"all without names":          {nil, all, ""},
		"a kind in any group":        {[]string{"net"}, all[:2], ""},
		"a kind of one group":        {[]string{"net.b.example.org", "Vpc"}, all[1:], ""},
		"a kind that does not exist": {[]string{"Nett"}, nil, "there is no kind Nett"},
	} {
		got, err := gitops.Select(all, tc.names)
		if diff := cmp.Diff(tc.want, got); diff != "" || (err == nil) != (tc.err == "") || err != nil && !strings.HasPrefix(err.Error(), tc.err) {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestArgoCDHasAnEntryForEachKind(t *testing.T) {
	got, err := gitops.ArgoCD([]schema.GroupVersionKind{kind("a.example.org", "Net")}, "cd")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"resource.customizations.health.a.example.org_Net": gitops.Script}
	if diff := cmp.Diff(want, got["data"]); diff != "" || got["metadata"].(map[string]any)["namespace"] != "cd" {
		t.Errorf("%v (-want +got):\n%s", got["metadata"], diff)
	}
	many := make([]schema.GroupVersionKind, 1000)
	for i := range many {
		many[i] = kind("a.example.org", "Net"+strings.Repeat("x", i))
	}
	if _, err := gitops.ArgoCD(many, "cd"); err == nil || !strings.Contains(err.Error(), "name the kinds") {
		t.Errorf("1000 kinds: %v", err)
	}
}
