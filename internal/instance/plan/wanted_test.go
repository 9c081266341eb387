package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

func TestWantedInventory(t *testing.T) {
	configMaps, secrets := configMap.GroupKind(), schema.GroupKind{Kind: "Secret"}
	secret := secrets.WithVersion("v1")
	elsewhere := rendered("x")
	elsewhere.SetNamespace("elsewhere")
	clusterWide := rendered("x")
	clusterWide.SetNamespace("")
	cases := map[string]struct {
		written []schema.GroupVersionKind
		nodes   []plan.Node
		steps   []plan.Step
		owned   []*unstructured.Unstructured
		want    inventory.Inventory
	}{
		"Kinds that the composer names are included": {
			written: []schema.GroupVersionKind{configMap, secret}, want: inventory.Of([]schema.GroupKind{configMaps, secrets}),
		},
		"Kinds whose nodes are all skipped are not": {
			written: []schema.GroupVersionKind{configMap, secret}, nodes: []plan.Node{wants("a", 0, "a"), {Kind: secret, SkipMessage: "no"}},
			want: inventory.Of([]schema.GroupKind{configMaps}),
		},
		"Kinds with one skipped node are": {
			written: []schema.GroupVersionKind{configMap}, nodes: []plan.Node{{Kind: configMap, SkipMessage: "no"}, wants("a", 0, "a"), {Kind: configMap, SkipMessage: "no"}},
			want: inventory.Of([]schema.GroupKind{configMaps}),
		},
		"External nodes don't count": {
			written: []schema.GroupVersionKind{secret}, nodes: []plan.Node{{Kind: secret, External: true}, {Kind: secret, Variable: true}, {Kind: secret, SkipMessage: "no"}},
			want: inventory.Of(nil),
		},
		"Namespaces of objects to be created are included": {
			steps: []plan.Step{{}, {Object: elsewhere}}, want: inventory.Of([]schema.GroupKind{configMaps}, "elsewhere"),
		},
		"Namespaces of existing objects are, also of skipped kinds": {
			written: []schema.GroupVersionKind{configMap}, nodes: []plan.Node{{Kind: configMap, SkipMessage: "no"}},
			owned: []*unstructured.Unstructured{elsewhere}, want: inventory.Of([]schema.GroupKind{configMaps}, "elsewhere"),
		},
		"The instance's own namespace isn't": {
			owned: []*unstructured.Unstructured{rendered("a"), clusterWide}, want: inventory.Of([]schema.GroupKind{configMaps}),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := plan.WantedInventory(tc.written, tc.nodes, tc.steps, map[string][]*unstructured.Unstructured{"n": tc.owned}, "prod")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
