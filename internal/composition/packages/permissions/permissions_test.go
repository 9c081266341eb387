package permissions_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/espalier-dev/espalier/internal/composition/packages/permissions"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
)

func rule(group, resources, verbs string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: strings.Fields(resources), Verbs: strings.Fields(verbs)}
}

// text has a line for each rule.
func text(rules []rbacv1.PolicyRule) (out []string) {
	for _, r := range rules {
		out = append(out, fmt.Sprintf("%s: %s: %s", strings.Join(r.APIGroups, ","), strings.Join(r.Resources, " "), strings.Join(r.Verbs, " ")))
	}
	return out
}

const every = "create delete deletecollection get list patch update watch"

func TestWhatIsGranted(t *testing.T) {
	own := []rbac.Resource{{Group: "s3.example.org", Name: "buckets"}}
	configs := []rbac.Resource{{Group: "aws.example.org", Name: "providerconfigs"}}
	member := permissions.Revision{Name: "s3-1", Source: "registry.example.org/team/provider-s3", Family: "aws", Kinds: own}
	ofKind := func(kind string) []string {
		group, plural, _ := strings.Cut(kind, "/")
		return []string{
			fmt.Sprintf("%s: %s: create get list patch update watch", group, plural),
			fmt.Sprintf("%s: %s/finalizers: update", group, plural),
			fmt.Sprintf("%s: %s/status: get patch update", group, plural),
		}
	}
	support := []string{"coordination.k8s.io: leases: " + every, "events.k8s.io: events: " + every}
	for name, tc := range map[string]struct {
		reason   string
		revision permissions.Revision
		others   []permissions.Revision
		bound    []rbacv1.PolicyRule
		system   []string
		withheld []string
	}{
		"without kinds": {"it may be installed in a moment", permissions.Revision{Name: "s3-1"}, nil, permissions.Unbounded, nil, nil},
		"everything": {"the administrator has said so", member, nil, permissions.Unbounded,
			append([]string{": configmaps events secrets: " + every, support[0], support[1]}, ofKind("s3.example.org/buckets")...), nil},
		"its kinds alone": {"Secrets are granted only if a rule says so", member, nil, []rbacv1.PolicyRule{rule("s3.example.org", "*", "*")},
			ofKind("s3.example.org/buckets"),
			[]string{"configmaps", "events", "secrets", "leases.coordination.k8s.io", "events.events.k8s.io"}},
		"some verbs": {"the others are withheld", member, nil, []rbacv1.PolicyRule{rule("s3.example.org", "*", "*"), rule("", "secrets", "get list watch")},
			append([]string{": secrets: get list watch"}, ofKind("s3.example.org/buckets")...),
			[]string{"configmaps", "events", "secrets", "leases.coordination.k8s.io", "events.events.k8s.io"}},
		"no bound": {"roles that a user has bound are left alone", member, nil, nil, nil,
			[]string{"configmaps", "events", "secrets", "leases.coordination.k8s.io", "events.events.k8s.io", "buckets.s3.example.org", "buckets.s3.example.org/finalizers", "buckets.s3.example.org/status"}},
		"a family": {"its members use each other's kinds", member,
			[]permissions.Revision{{Name: "aws-1", Source: "registry.example.org/team/provider-family-aws", Family: "aws", Kinds: configs}}, []rbacv1.PolicyRule{rule("*", "*", "*")},
			append(append([]string{": configmaps events secrets: " + every}, ofKind("aws.example.org/providerconfigs")...), append(append([]string{}, support...), ofKind("s3.example.org/buckets")...)...), nil},
		"the label of a family": {"anybody can write it into a package: another organization, another registry, or another family", member,
			[]permissions.Revision{
				{Name: "a", Source: "registry.example.org/mallory/provider", Family: "aws", Kinds: configs},
				{Name: "b", Source: "other.example.org/team/provider", Family: "aws", Kinds: configs},
				{Name: "c", Source: "registry.example.org/team/provider", Family: "gcp", Kinds: configs},
			}, []rbacv1.PolicyRule{rule("*", "*", "*")},
			append(append([]string{": configmaps events secrets: " + every}, support...), ofKind("s3.example.org/buckets")...), nil},
		"safe-start": {"it waits for its kinds", permissions.Revision{Name: "s3-1", SafeStart: true, Kinds: own}, nil, []rbacv1.PolicyRule{rule("apiextensions.k8s.io", "*", "*")},
			[]string{"apiextensions.k8s.io: customresourcedefinitions: get list watch"},
			[]string{"configmaps", "events", "secrets", "leases.coordination.k8s.io", "events.events.k8s.io", "buckets.s3.example.org", "buckets.s3.example.org/finalizers", "buckets.s3.example.org/status"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := permissions.Compute(tc.revision, tc.others, nil, tc.bound)
			var system []string
			for _, role := range g.Roles {
				if role.Name == "crossplane:provider:s3-1:system" {
					system = text(role.Rules)
				}
			}
			if diff := cmp.Diff(tc.system, system); diff != "" {
				t.Errorf("%s: (-want +got):\n%s", tc.reason, diff)
			}
			var withheld []string
			for _, d := range rbac.Describe(g.Withheld) {
				withheld = append(withheld, d[strings.LastIndex(d, " ")+1:])
			}
			if diff := cmp.Diff(tc.withheld, withheld); diff != "" {
				t.Errorf("%s: withheld (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestRolesOfUsers have the names and labels by which clusters aggregate them.
func TestRolesOfUsers(t *testing.T) {
	r := permissions.Revision{Name: "p-1", UID: "uid", Kinds: []rbac.Resource{{Group: "example.org", Name: "things"}}}
	account := rbac.ServiceAccount("packages", "p-1")
	g := permissions.Compute(r, nil, &account, []rbacv1.PolicyRule{rule("example.org", "*", "*")})
	type summary struct {
		Labels map[string]string
		Rules  []string
		Owner  string
	}
	got := map[string]summary{}
	for _, role := range g.Roles {
		got[role.Name] = summary{role.Labels, text(role.Rules), role.OwnerReferences[0].Kind + " " + role.OwnerReferences[0].Name}
	}
	const owner = "ProviderRevision p-1"
	want := map[string]summary{
		"crossplane:provider:p-1:aggregate-to-edit": {
			map[string]string{"rbac.crossplane.io/aggregate-to-crossplane": "true", "rbac.crossplane.io/aggregate-to-admin": "true", "rbac.crossplane.io/aggregate-to-edit": "true"},
			[]string{"example.org: things: " + every, "example.org: things/status: get patch update"}, owner},
		"crossplane:provider:p-1:aggregate-to-view": {
			map[string]string{"rbac.crossplane.io/aggregate-to-view": "true"},
			[]string{"example.org: things: get list watch", "example.org: things/status: get"}, owner},
		"crossplane:provider:p-1:system": {
			map[string]string{"rbac.crossplane.io/system": "p-1"},
			[]string{"example.org: things: create get list patch update watch", "example.org: things/finalizers: update", "example.org: things/status: get patch update"}, owner},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if b := g.Binding; b == nil || b.RoleRef.Name != b.Name || b.Name != "crossplane:provider:p-1:system" || b.Subjects[0] != account {
		t.Errorf("the binding is %+v", b)
	}
}
