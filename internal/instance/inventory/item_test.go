package inventory_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
)

func TestAnItemIsNamedByItsObject(t *testing.T) {
	owner := inventory.OwnerOf(instance(), object.Definition{Name: "vpc"}, "v1")
	item := &inventory.Item{Index: 3, Size: 4}
	cases := map[string]struct {
		at              inventory.Place
		namespace, want string
	}{
		"A single object":              {inventory.Place{Node: "a"}, "prod", "a"},
		"An item":                      {inventory.Place{Node: "a", Item: item}, "prod", "a[x]"},
		"An item in another namespace": {inventory.Place{Node: "a", Item: item}, "other", "a[other/x]"},
		"An item in none":              {inventory.Place{Node: "a", Item: item}, "", "a[x]"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := &unstructured.Unstructured{Object: map[string]any{}}
			o.SetName("x")
			o.SetNamespace(tc.namespace)
			owner.Mark(o, tc.at)
			if got := inventory.NodeID(o, "prod"); got != tc.want {
				t.Errorf("%s, not %s", got, tc.want)
			}
		})
	}
}

func TestMalformedItemLabelsAreIgnored(t *testing.T) {
	for index, size := range map[string]string{"": "2", "x": "2", "-1": "2", "1": "x", "0": ""} {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		o.SetLabels(map[string]string{"kro.run/collection-index": index, "kro.run/collection-size": size})
		if got := inventory.ItemOf(o); got != nil {
			t.Errorf("%q of %q is read as %v", index, size, *got)
		}
	}
}
