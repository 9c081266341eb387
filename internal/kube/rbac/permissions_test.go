package rbac_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"pgregory.net/rapid"

	"github.com/espalier-dev/espalier/internal/kube/rbac"
)

func rule(verbs, groups, resources []string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: verbs, APIGroups: groups, Resources: resources, ResourceNames: names}
}

func TestMissing(t *testing.T) {
	secret := rbac.Permission{Verb: "list", Resource: "secrets"}
	status := rbac.Permission{Verb: "update", Group: "x.org", Resource: "things/status"}
	one := rbac.Permission{Verb: "get", Resource: "secrets", Name: "a"}
	star := []string{"*"}
	cases := map[string]struct {
		granted  []rbacv1.PolicyRule
		required rbac.Permission
		missing  bool
	}{
		"no rule":                                          {nil, secret, true},
		"the permission itself":                            {[]rbacv1.PolicyRule{rule([]string{"list"}, []string{""}, []string{"secrets"})}, secret, false},
		"another verb":                                     {[]rbacv1.PolicyRule{rule([]string{"get"}, []string{""}, []string{"secrets"})}, secret, true},
		"another group":                                    {[]rbacv1.PolicyRule{rule([]string{"list"}, []string{"x.org"}, []string{"secrets"})}, secret, true},
		"all verbs of all resources":                       {[]rbacv1.PolicyRule{rule(star, star, star)}, secret, false},
		"all resources include subresources":               {[]rbacv1.PolicyRule{rule(star, star, star)}, status, false},
		"a resource does not include its subresources":     {[]rbacv1.PolicyRule{rule(star, star, []string{"things"})}, status, true},
		"a subresource of all resources":                   {[]rbacv1.PolicyRule{rule(star, star, []string{"*/status"})}, status, false},
		"one object is not all objects":                    {[]rbacv1.PolicyRule{rule([]string{"list"}, []string{""}, []string{"secrets"}, "a")}, secret, true},
		"the named object":                                 {[]rbacv1.PolicyRule{rule([]string{"get"}, []string{""}, []string{"secrets"}, "a", "b")}, one, false},
		"another object":                                   {[]rbacv1.PolicyRule{rule([]string{"get"}, []string{""}, []string{"secrets"}, "b")}, one, true},
		"all objects include each":                         {[]rbacv1.PolicyRule{rule([]string{"get"}, []string{""}, []string{"secrets"})}, one, false},
		"the verb in one rule and the resource in another": {[]rbacv1.PolicyRule{rule([]string{"list"}, []string{""}, []string{"pods"}), rule([]string{"get"}, []string{""}, []string{"secrets"})}, secret, true},
	}
	for name, tc := range cases {
		if got := rbac.Missing(tc.granted, []rbac.Permission{tc.required}); (len(got) > 0) != tc.missing {
			t.Errorf("%s: missing is %v", name, got)
		}
	}
}

func TestRulesAndDescribe(t *testing.T) {
	permissions := []rbac.Permission{
		{Verb: "watch", Resource: "secrets"}, {Verb: "list", Resource: "secrets"}, {Verb: "list", Resource: "secrets"},
		{Verb: "list", Resource: "configmaps"}, {Verb: "watch", Resource: "configmaps"},
		{Verb: "update", Group: "x.org", Resource: "things/status"},
		{Verb: "list", Group: "x.org", Resource: "things", Name: "one"},
		{Verb: "list", Resource: "secrets", Name: "covered"}, {Verb: "list", Resource: "secrets", Namespace: "covered"}, {Verb: "list", Resource: "secrets", Name: "a", Namespace: "b"},
	}
	want := []rbacv1.PolicyRule{
		rule([]string{"list", "watch"}, []string{""}, []string{"configmaps", "secrets"}),
		rule([]string{"list"}, []string{"x.org"}, []string{"things"}, "one"),
		rule([]string{"update"}, []string{"x.org"}, []string{"things/status"}),
	}
	want[0].ResourceNames, want[2].ResourceNames = nil, nil
	if diff := cmp.Diff(want, rbac.Rules(permissions)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	words := []string{"list and watch configmaps", "list and watch secrets", "list things.x.org named one", "update things.x.org/status"}
	if diff := cmp.Diff(words, rbac.Describe(permissions)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRulesGrantExactlyThePermissions draws permissions, and checks of each possible
// permission whether it is granted.
func TestRulesGrantExactlyThePermissions(t *testing.T) {
	permission := rapid.Custom(func(t *rapid.T) rbac.Permission {
		return rbac.Permission{
			Verb:      rapid.SampledFrom([]string{"get", "list", "update"}).Draw(t, "verb"),
			Group:     rapid.SampledFrom([]string{"", "x.org"}).Draw(t, "group"),
			Resource:  rapid.SampledFrom([]string{"a", "b", "a/status"}).Draw(t, "resource"),
			Name:      rapid.SampledFrom([]string{"", "one"}).Draw(t, "name"),
			Namespace: rapid.SampledFrom([]string{"", "here"}).Draw(t, "namespace"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		permissions := rapid.SliceOf(permission).Draw(t, "permissions")
		requested := permission.Draw(t, "requested")
		var granted, wanted bool
		for _, scope := range rbac.Scopes(permissions) {
			in := scope.Namespace == "" || scope.Namespace == requested.Namespace
			granted = granted || in && len(rbac.Missing(rbac.Rules(scope.Permissions), []rbac.Permission{requested})) == 0
		}
		for _, p := range permissions {
			wanted = wanted || p.Verb == requested.Verb && p.Group == requested.Group && p.Resource == requested.Resource &&
				(p.Name == "" || p.Name == requested.Name) && (p.Namespace == "" || p.Namespace == requested.Namespace)
		}
		if granted != wanted {
			t.Fatalf("%s: granted %t, want %t", requested, granted, wanted)
		}
	})
}

func TestScopes(t *testing.T) {
	lease := rbac.Permission{Verb: "get", Group: "coordination.k8s.io", Resource: "leases", Namespace: "here"}
	secret := rbac.Permission{Verb: "get", Resource: "secrets", Name: "a", Namespace: "there"}
	everywhere := rbac.PermissionsFor("", "configmaps", "list", "watch")
	got := rbac.Scopes(append([]rbac.Permission{secret, lease}, everywhere...))
	want := []rbac.Scope{{Permissions: everywhere}, {Namespace: "here", Permissions: []rbac.Permission{lease}}, {Namespace: "there", Permissions: []rbac.Permission{secret}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := secret.String(); got != "get secrets named a in namespace there" {
		t.Errorf("got %q", got)
	}
}
