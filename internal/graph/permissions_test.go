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
	got := graph.RequiredPermissions(&spec, graph.Scope{}, func(gvk schema.GroupVersionKind) (graph.Served, bool) {
		return graph.Served{Resource: strings.ToLower(gvk.Kind) + "s"}, gvk.Kind != "Unheard"
	})
	want := []string{
		"create, delete, get, list, patch and watch configmaps", "list and watch events", "list and watch namespaces",
		"list and watch secrets named settings", "create, delete, get, list, patch and watch serviceaccounts",
		"get, list and patch sites.example.com", "update sites.example.com/finalizers", "update sites.example.com/status",
	}
	if diff := cmp.Diff(want, rbac.Describe(got.Instances)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"get, list and watch sites.example.com"}, rbac.Describe(got.Controllers)); diff != "" {
		t.Errorf("of the controllers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]schema.GroupVersionKind{{Group: "example.com", Version: "v1", Kind: "Unheard"}}, got.UnresolvedKinds); diff != "" {
		t.Errorf("unknown (-want +got):\n%s", diff)
	}
}

// A Graph reads what it contributes to, by its name if that is known, and writes the object or its status.
func TestRequiredPermissionsOfAGraph(t *testing.T) {
	var spec v1alpha1.GraphSpec
	if err := yaml.Unmarshal([]byte(`
nodes:
  - {id: page, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: x}}}
  - {id: claims, ref: {apiVersion: example.com/v1, kind: Claim, metadata: {namespace: team, selector: {}}}}
  - {id: team, patch: {apiVersion: v1, kind: Service, metadata: {name: web, labels: {team: blue}}}}
  - {id: other, patch: {apiVersion: v1, kind: Secret, metadata: {name: "${page.metadata.name}"}, data: {}}}
  - id: active
    forEach: [{c: "${claims}"}]
    patch: {apiVersion: example.com/v1, kind: Claim, metadata: {name: "${c.metadata.name}", namespace: team}, status: {active: true}}
  - {id: zone, patch: {apiVersion: v1, kind: Node, metadata: {name: one, labels: {zone: a}}}}
`), &spec); err != nil {
		t.Fatal(err)
	}
	got := graph.RequiredPermissionsOfGraph(&spec, "apps", func(gvk schema.GroupVersionKind) (graph.Served, bool) {
		return graph.Served{Resource: strings.ToLower(gvk.Kind) + "s", ClusterScoped: gvk.Kind == "Node"}, true
	})
	want := []string{
		"create, delete, get, list, patch and watch configmaps in namespace apps", "get, list, patch and watch nodes named one",
		"get, list, patch and watch secrets in namespace apps", "get, list, patch and watch services named web in namespace apps",
		"get, list and watch claims.example.com in namespace team", "patch claims.example.com/status in namespace team",
	}
	if diff := cmp.Diff(want, rbac.Describe(got.Instances)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(got.Controllers) > 0 {
		t.Errorf("of the controllers: %v", got.Controllers)
	}
}

func TestRequiredPermissionsOfADefinitionInANamespace(t *testing.T) {
	const everything = "create, delete, get, list, patch and watch"
	cases := map[string]struct {
		reason    string
		scope     string // of the instances' kind
		instances []string
		resources string
		want      []string
	}{
		"InItsNamespace": {
			reason:    "the permissions for namespaced kinds are needed in the namespace of the definition",
			resources: `[{id: page, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: x}}}]`,
			want: []string{
				everything + " configmaps in namespace team", "get, list and patch sites.example.com in namespace team",
				"update sites.example.com/finalizers in namespace team", "update sites.example.com/status in namespace team",
			},
		},
		"InstancesElsewhere": {
			reason:    "the account needs in another namespace with instances what it needs in its own",
			instances: []string{"prod"},
			resources: "[{id: page, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: \"${schema.metadata.namespace}\"}}}]",
			want: []string{
				everything + " configmaps in namespace prod", everything + " configmaps in namespace team",
				"get, list and patch sites.example.com in namespace prod", "get, list and patch sites.example.com in namespace team",
				"update sites.example.com/finalizers in namespace prod", "update sites.example.com/finalizers in namespace team",
				"update sites.example.com/status in namespace prod", "update sites.example.com/status in namespace team",
			},
		},
		"ChildrenElsewhere": {
			reason: "each kind is watched in each namespace that may have children; a computed namespace is unknown",
			scope:  "Cluster",
			resources: "[{id: page, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: shared}}}, {id: role, template: {apiVersion: v1, kind: ClusterThing, metadata: {name: x}}}," +
				"{id: copy, template: {apiVersion: v1, kind: Secret, metadata: {name: x, namespace: \"${schema.spec.where}\"}}}]",
			want: []string{
				everything + " clusterthings", everything + " configmaps in namespace shared", "list and watch configmaps in namespace team",
				"list and watch secrets in namespace shared", "list and watch secrets in namespace team",
				"get, list and patch sites.example.com", "update sites.example.com/finalizers", "update sites.example.com/status",
			},
		},
		"References": {
			reason: "a reference is read in the namespace that it names; a selector without one selects from all",
			scope:  "Cluster",
			resources: "[{id: settings, externalRef: {apiVersion: v1, kind: Secret, metadata: {name: settings}}}, {id: other, externalRef: {apiVersion: v1, kind: Secret, metadata: {name: other, namespace: infra}}}," +
				"{id: some, externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {namespace: infra, selector: {matchLabels: {a: b}}}}}, {id: all, externalRef: {apiVersion: v1, kind: Event, metadata: {selector: {matchLabels: {a: b}}}}}]",
			want: []string{
				"list and watch configmaps in namespace infra", "list and watch events", "list and watch secrets named other in namespace infra", "list and watch secrets named settings in namespace team",
				"get, list and patch sites.example.com", "update sites.example.com/finalizers", "update sites.example.com/status",
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var spec v1alpha1.DefinitionSpec
			text := "schema: {apiVersion: v1, kind: Site, group: example.com, spec: {where: string}}\nresources: " + tc.resources
			if err := yaml.Unmarshal([]byte(text), &spec); err != nil {
				t.Fatal(err)
			}
			spec.Schema.Scope = v1alpha1.ResourceScope(tc.scope)
			got := graph.RequiredPermissions(&spec, graph.Scope{Namespace: "team", Instances: tc.instances}, func(gvk schema.GroupVersionKind) (graph.Served, bool) {
				return graph.Served{Resource: strings.ToLower(gvk.Kind) + "s", ClusterScoped: strings.HasPrefix(gvk.Kind, "Cluster")}, true
			})
			if diff := cmp.Diff(tc.want, rbac.Describe(got.Instances)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
