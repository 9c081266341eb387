package plan_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/instance/plan"
)

func TestObjectsByName(t *testing.T) {
	object := func(apiVersion, namespace, name, uid string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": apiVersion, "kind": "Part", "metadata": map[string]any{"namespace": namespace, "name": name, "uid": uid},
		}}
	}
	facts := plan.Facts{Owned: map[string][]*unstructured.Unstructured{
		"parts": {
			object("example.org/v2", "prod", "a", "other version"),
			object("example.org/v1", "prod", "a", "first"),
			object("example.org/v1", "prod", "a", "second"),
			object("example.org/v1", "test", "a", "other namespace"),
			object("example.org/v1", "", "a", "cluster-scoped"),
		},
		"others": {object("example.org/v1", "prod", "b", "other node")},
	}}
	kind := schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Part"}
	index := facts.Objects("parts", kind)
	for name, o := range index {
		if same := facts.Object("parts", kind, name.Namespace, name.Name); same != o {
			t.Errorf("%s: the index has %s, a search finds %s", name, o.GetUID(), same.GetUID())
		}
	}
	if len(index) != 3 {
		t.Errorf("got %v", index)
	}
	if none := facts.Objects("unknown", kind); len(none) > 0 {
		t.Errorf("got %v", none)
	}
}
