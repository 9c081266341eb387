package observe_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/observe"
)

// TestACompositeIsBelowItsClaimOnly has a definition with a claim, its composite, and a composite
// without a claim.
func TestACompositeIsBelowItsClaimOnly(t *testing.T) {
	instance := func(kind, namespace, name string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion("example.org/v1")
		o.SetKind(kind)
		o.SetNamespace(namespace)
		o.SetName(name)
		return o
	}
	definition := instance("CompositeResourceDefinition", "", "xshops.example.org")
	definition.SetUID("definition")
	claim, composite, free := instance("Shop", "prod", "main"), instance("XShop", "", "main-x"), instance("XShop", "", "free")
	set := inventory.ApplySetID(object.KeyOf(claim))
	claim.SetLabels(map[string]string{"applyset.kubernetes.io/id": set})
	composite.SetLabels(map[string]string{
		"applyset.kubernetes.io/part-of": set, "kro.run/instance-group": "example.org", "kro.run/instance-version": "v1",
		"kro.run/instance-kind": "Shop", "kro.run/instance-namespace": "prod", "kro.run/instance-name": "main",
	})
	tree := observe.Build(observe.ClusterState{
		Root: definition, Children: map[string][]*unstructured.Unstructured{set: {composite}},
		Instances: map[types.UID][]*unstructured.Unstructured{"definition": {composite, free, claim}},
	}, time.Now())
	var names []string
	for _, n := range tree.Children {
		names = append(names, n.Name)
	}
	if len(names) != 2 || names[0] != "main" || names[1] != "free" || len(tree.Children[0].Children) != 1 {
		t.Errorf("below the definition are %q: %s", names, tree.JSON())
	}
}
