package graph_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
)

func TestRequiredPermissions(t *testing.T) {
	var spec v1alpha1.DefinitionSpec
	if err := yaml.Unmarshal([]byte(`
schema: {apiVersion: v1, kind: Site, group: example.com, spec: {text: string, where: string}}
resources:
  - {id: page, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.spec.text}"}}}
  - {id: copy, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: copy, namespace: "${schema.spec.where}"}}}
  - {id: account, template: {apiVersion: v1, kind: ServiceAccount, metadata: {name: x, namespace: fixed}}}
  - {id: settings, externalRef: {apiVersion: v1, kind: Secret, metadata: {name: settings, namespace: n}}}
  - {id: others, externalRef: {apiVersion: v1, kind: Event, metadata: {selector: {matchLabels: {a: b}}}}}
  - {id: later, template: {apiVersion: example.com/v1, kind: Unheard, metadata: {name: x}}}
`), &spec); err != nil {
		t.Fatal(err)
	}
	got := graph.RequiredPermissions(&spec, func(gvk schema.GroupVersionKind) (string, bool) {
		return strings.ToLower(gvk.Kind) + "s", gvk.Kind != "Unheard"
	})
	want := []string{
		"create, delete, get, list, patch and watch configmaps", "list and watch events", "list and watch namespaces",
		"list and watch secrets named settings", "create, delete, get, list, patch and watch serviceaccounts",
		"get, list and patch sites.example.com", "update sites.example.com/finalizers", "update sites.example.com/status",
	}
	if diff := cmp.Diff(want, rbac.Describe(got.Instances)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"list and watch sites.example.com"}, rbac.Describe(got.Controllers)); diff != "" {
		t.Errorf("of the controllers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]schema.GroupVersionKind{{Group: "example.com", Version: "v1", Kind: "Unheard"}}, got.UnresolvedKinds); diff != "" {
		t.Errorf("unknown (-want +got):\n%s", diff)
	}
}
