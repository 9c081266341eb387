package instance

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/inventory"
)

func TestWhatIsAdvisedOfAnObjectInTheWay(t *testing.T) {
	yes := true
	deployment := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "d", Controller: &yes}}
	cases := map[string]struct {
		dialect inventory.Dialect
		adopts  bool
		owners  []metav1.OwnerReference
		want    string
	}{
		"A node may be let adopt what nobody keeps":      {inventory.GraphDialect, false, nil, "To adopt it, set adopt: IfUnowned on the resource, or label it applyset"},
		"One that may is not told to let it":             {inventory.GraphDialect, true, nil, "left alone. To adopt it, label it applyset"},
		"Compositions have no such policy":               {inventory.CompositeDialect, false, nil, "left alone. To adopt it, label it applyset"},
		"What a controller keeps can't be adopted":       {inventory.GraphDialect, false, deployment, "Give one of the two another name, or have Deployment web let it go"},
		"What a controller keeps can't be adopted again": {inventory.GraphDialect, true, deployment, "Give one of the two another name, or have Deployment web let it go"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			holder := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "n", "name": "x"}}}
			holder.SetOwnerReferences(tc.owners)
			owner := inventory.Owner{Definition: inventory.Definition{Dialect: tc.dialect}, Name: "i", Namespace: "n"}
			got := notOwned(holder, owner, tc.adopts, "").Message
			if !strings.Contains(got, tc.want) {
				t.Errorf("%q doesn't say %q", got, tc.want)
			}
			if (tc.adopts || tc.owners != nil) && strings.Contains(got, "IfUnowned") {
				t.Errorf("it advises what is so already or has no effect: %s", got)
			}
		})
	}
}
