// Package observe turns objects into what people look at: the tree of an instance,
// with what each part of it is waiting for. It decides nothing and reads
// nothing; objects and the time come in, a tree, rows and texts go out.
//
// Pure: it decides from values alone.
package observe

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
)

// World is what is known of an instance's surroundings. The objects may be
// shared with caches and are not changed.
type World struct {
	// Root is the object that the tree is of; nil when there is none.
	Root *unstructured.Unstructured
	// Roots are the objects that trees are of, sorted: the root alone, or, where Many are meant,
	// all objects of a kind, of which there may be none.
	Roots []*unstructured.Unstructured
	Many  bool
	// Instances holds those of each definition.
	Instances map[types.UID][]*unstructured.Unstructured
	// Children holds the objects of each instance by the id of its ApplySet.
	Children map[string][]*unstructured.Unstructured
	// Definitions holds those of the instances' kinds, as far as they could be read.
	Definitions map[types.NamespacedName]*unstructured.Unstructured
}

// Gone says whether what the tree is of is there no more.
func (w World) Gone() bool { return w.Root == nil && !w.Many }

// instances returns a definition's instances, but for those that are below another of them: the
// composite of a claim.
func (w World) instances(definition *unstructured.Unstructured) []*unstructured.Unstructured {
	all := w.Instances[definition.GetUID()]
	is := make(map[object.Key]bool, len(all))
	for _, o := range all {
		is[object.KeyOf(o)] = true
	}
	out := slices.DeleteFunc(slices.Clone(all), func(o *unstructured.Unstructured) bool {
		parent, _, ok := inventory.InstanceOf(o)
		return ok && is[parent]
	})
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int { return object.KeyOf(a).Compare(object.KeyOf(b)) })
	return out
}

// ApplySet returns the id by which an instance's children know it; empty for
// what isn't an instance, or not yet claimed as one.
func ApplySet(o *unstructured.Unstructured) string {
	return o.GetLabels()[v1alpha1.ApplySetIDLabel]
}

// children returns the objects that an instance made, in the order in which they
// are applied.
func (w World) children(o *unstructured.Unstructured) []*unstructured.Unstructured {
	id := ApplySet(o)
	if id == "" {
		return nil
	}
	return slices.SortedFunc(slices.Values(w.Children[id]), func(a, b *unstructured.Unstructured) int {
		if d := inventory.Layer(a) - inventory.Layer(b); d != 0 {
			return d
		}
		if d := strings.Compare(inventory.Node(a), inventory.Node(b)); d != 0 {
			return d
		}
		if x, y := inventory.ItemOf(a), inventory.ItemOf(b); x != nil && y != nil && x.Index != y.Index {
			return x.Index - y.Index
		}
		return object.KeyOf(a).Compare(object.KeyOf(b))
	})
}
