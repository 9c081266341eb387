package docs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// TestRolesOfAProvider checks that the roles in providers.md are those that the provider of the page needs, no more and no less.
func TestRolesOfAProvider(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "providers.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, manifest, _ := strings.Cut(string(text), "```yaml\napiVersion: v1\nkind: ServiceAccount")
	manifest, _, found := strings.Cut(manifest, "```")
	if !found {
		t.Fatal("the page has no manifest")
	}
	var got []rbac.Permission
	for _, document := range strings.Split(manifest, "\n---\n") {
		var role rbacv1.Role // a ClusterRole has the same fields
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				object := rbac.Object{Namespace: role.Namespace}
				if len(rule.ResourceNames) > 0 {
					object.Name = rule.ResourceNames[0]
				}
				got = append(got, object.Permissions(rule.APIGroups[0], resource, rule.Verbs...)...)
			}
		}
	}
	things := managed.Provider{Name: "things", CRDs: fstest.MapFS{"notes.yaml": {Data: []byte("spec: {group: things.example.org, names: {plural: notes}}")}}}
	want, err := server.ProviderNeeds(things, manager.Options{LeaderElectionNamespace: "espalier-system"})
	if err != nil {
		t.Fatal(err)
	}
	lines := func(permissions []rbac.Permission) []string {
		return slices.Sorted(slices.Values(rbac.Describe(permissions)))
	}
	if diff := cmp.Diff(lines(want), lines(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
