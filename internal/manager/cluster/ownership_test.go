package cluster

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/shard"
)

func TestAChildIsInThePartOfItsOwner(t *testing.T) {
	instance := func(namespace, name string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kro.run/v1alpha1", "kind": "Vpc"}}
		o.SetNamespace(namespace)
		o.SetName(name)
		o.SetUID("i-1")
		return o
	}
	child := func(d object.Dialect, of *unstructured.Unstructured, namespace string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
		o.SetNamespace(namespace)
		o.SetName("x")
		owner := inventory.OwnerOf(of, object.Definition{Name: "vpc", UID: "d-1", Dialect: d}, "v1")
		owner.Mark(o, inventory.Place{Node: "x"})
		return o
	}
	const long = "a-name-that-is-longer-than-the-63-characters-that-the-value-of-a-label-may-have"
	for name, c := range map[string]struct {
		object *unstructured.Unstructured
		want   shard.Slot
		known  bool
	}{
		"a child":                      {child(object.GraphDialect, instance("team-a", "main"), "team-a"), shard.SlotOf("team-a", ""), true},
		"a child in another namespace": {child(object.GraphDialect, instance("team-a", "main"), "elsewhere"), shard.SlotOf("team-a", ""), true},
		"a child of a cluster-scoped instance with a long name": {child(object.GraphDialect, instance("", long), "elsewhere"), shard.SlotOf("", long), true},
		"a composed resource":                           {child(object.CompositeDialect, instance("team-a", "main"), "team-a"), shard.SlotOf("team-a", ""), true},
		"a composed resource of a cluster-scoped owner": {child(object.CompositeDialect, instance("", "main"), "team-a"), shard.SlotOf("", "main"), true},
		"labels that name another instance than the ID": {func() *unstructured.Unstructured {
			o := child(object.GraphDialect, instance("team-a", "main"), "team-a")
			labels := o.GetLabels()
			labels[v1alpha1.InstanceNamespaceLabel] = "team-b"
			o.SetLabels(labels)
			return o
		}(), 0, false},
		"an ID alone": {func() *unstructured.Unstructured {
			o := child(object.GraphDialect, instance("team-a", "main"), "team-a")
			o.SetLabels(map[string]string{v1alpha1.ApplySetPartOfLabel: o.GetLabels()[v1alpha1.ApplySetPartOfLabel]})
			return o
		}(), 0, false},
		"a Binding": {func() *unstructured.Unstructured {
			o := child(object.CompositeDialect, instance("", "main"), "")
			o.SetGroupVersionKind(bindingKind)
			return o
		}(), 0, false},
	} {
		slot, known := part{}.SlotOf(c.object)
		if known != c.known || slot != c.want {
			t.Errorf("%s is in slot %d (%t), want %d (%t)", name, slot, known, c.want, c.known)
		}
	}
}
