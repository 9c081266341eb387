package inventory_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
)

// TestDigestsStayTheSame marks children: objects in clusters have these digests, and all children of all
// instances are written again after an upgrade that computes others.
func TestDigestsStayTheSame(t *testing.T) {
	cases := map[string]struct {
		dialect  object.Dialect
		metadata map[string]any
		want     string
	}{
		"A graph's child":     {object.GraphDialect, map[string]any{"namespace": "prod", "name": "x"}, "5ab9e1a08f7aa0bab0dc284d45243442"},
		"With labels":         {object.GraphDialect, map[string]any{"namespace": "prod", "name": "x", "labels": map[string]any{"a": "<b>"}, "annotations": map[string]any{"q": "é"}}, "dc80e402c1b82209e2e68af4a2a67494"},
		"With an owner":       {object.GraphDialect, map[string]any{"namespace": "prod", "name": "x", "ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "q", "controller": true}}}, "1e3955f1be75ae91ad849caaf3d9a0d7"},
		"A composite's child": {object.CompositeDialect, map[string]any{"namespace": "prod", "name": "x"}, "ce1c14d0f7170d1793a721798af385bb"},
		"A claim's composite": {object.ClaimDialect, map[string]any{"name": "x"}, "749b8dc9043bfb5cb022bb7c8cd03830"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			instance := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "example.org/v1", "kind": "Web", "metadata": map[string]any{"namespace": "prod", "name": "shop", "uid": "u"},
			}}
			child := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": tc.metadata, "data": map[string]any{"number": int64(3), "fraction": 1.5, "list": []any{"a", nil, true}},
			}}
			owner := inventory.OwnerOf(instance, object.Definition{Name: "webs", Dialect: tc.dialect}, "v1")
			owner.CRD = inventory.CRD{Name: "webs.example.org", UID: "c"}
			owner.Mark(child, inventory.Place{Node: "settings", Layer: 1, DependsOn: []string{"database"}})
			if got := child.GetAnnotations()[v1alpha1.AppliedAnnotation]; got != tc.want {
				t.Errorf("got %s", got)
			}
		})
	}
}
