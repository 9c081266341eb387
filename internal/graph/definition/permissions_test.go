package definition

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/object"
)

func TestMessageOfMissingPermissions(t *testing.T) {
	const remedy = "missing permissions; grant them with the roles and bindings that "
	pods, sites := rbac.PermissionsFor("", "pods", "list", "watch"), rbac.PermissionsFor("example.com", "sites", "list")
	key := object.Key{Kind: "ResourceGraphDefinition", Name: "site"}
	cases := map[string]struct {
		lacks       permissions
		controllers string
		key         object.Key
		want        string
	}{
		"The account lacks some": {
			permissions{accounts: map[string][]rbac.Permission{"builder": append(pods, rbac.PermissionsFor("", "secrets", "get")...)}}, "system:serviceaccount:a:b", key,
			remedy + "'espalier rbac site' prints. builder lacks: list and watch pods; get secrets",
		},
		"The controllers lack some": {
			permissions{controllers: sites}, "system:serviceaccount:a:b", key,
			remedy + "'espalier rbac site --serviceaccount a:b' prints. The controllers (system:serviceaccount:a:b) lack: list sites.example.com",
		},
		"Both do, in a namespace": {
			permissions{map[string][]rbac.Permission{"builder": pods}, sites}, "jane", object.Key{Kind: "ResourceGroup", Namespace: "team", Name: "site"},
			remedy + "'espalier rbac site --namespace team --user jane' prints. builder lacks: list and watch pods. The controllers (jane) lack: list sites.example.com",
		},
		"Who the controllers are isn't known": {
			permissions{controllers: sites}, "", key, remedy + "'espalier rbac site' prints. The controllers lack: list sites.example.com",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.lacks.message(tc.controllers, tc.key)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMissingPermissionsByDefinition(t *testing.T) {
	g := NewRegistry()
	a, b := object.Key{Kind: "ResourceGraphDefinition", Name: "a"}, object.Key{Kind: "ResourceGraphDefinition", Name: "b"}
	pods := rbac.PermissionsFor("", "pods", "list")
	g.setPermissions(g.Entry(a).Memory, []string{"builder"}, permissions{accounts: map[string][]rbac.Permission{"builder": pods}, controllers: pods})
	g.setPermissions(g.Entry(b).Memory, nil, permissions{})
	if diff := cmp.Diff([]Missing{{a, "", pods}, {a, "builder", pods}}, g.Missing()); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]object.Key{a}, g.ActingAs("builder")); diff != "" {
		t.Errorf("as the account (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]object.Key{a, b}, g.ActingAs("")); diff != "" {
		t.Errorf("as the controllers (-want +got):\n%s", diff)
	}
	g.Forget(a)
	if got := g.Missing(); len(got) > 0 {
		t.Errorf("of what is gone: %v", got)
	}
}
