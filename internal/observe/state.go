// Package observe turns objects into what `espalier tree` and `espalier blockers` show: the
// tree of an instance, with what each node waits for. It reads nothing: objects and the time
// come in; a tree, rows and texts go out.
// See docs/design/0016-the-controllers-without-effect.md.
//
// Pure: it decides from values alone.
package observe

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
)

// ClusterState holds the objects that trees are built from. They may be shared with caches
// and are not changed.
type ClusterState struct {
	// Root is the root of the tree; nil if it does not exist.
	Root *unstructured.Unstructured
	// Roots are the roots of all trees, sorted: Root alone or, with AllOfKind, all objects
	// of a kind, of which there may be none.
	Roots     []*unstructured.Unstructured
	AllOfKind bool
	// Instances holds the instances of each definition, by the definition's UID.
	Instances map[types.UID][]*unstructured.Unstructured
	// Children holds the children of each instance, by the id of its ApplySet.
	Children map[string][]*unstructured.Unstructured
	// Definitions holds the definitions of the instances' kinds that could be read.
	Definitions map[types.NamespacedName]*unstructured.Unstructured
	// ServedBy holds the definitions of objects that IsUnreconciled is true of, and the newest revision of a composition, as far as
	// they were read; they only add causes. A definition without a UID does not exist.
	ServedBy map[object.Key]*unstructured.Unstructured
	// Events are those about instances, as far as they were read; they only add details.
	Events []*unstructured.Unstructured
	// Unreadable says of which kinds objects are missing, since the reader may not list or watch them, sorted.
	Unreadable []string
}

// Gone reports whether the root of the tree does not exist any more.
func (w ClusterState) Gone() bool { return w.Root == nil && !w.AllOfKind }

// Objects returns all objects of the state: its roots, and what is below them, in no particular order.
func (w ClusterState) Objects() []*unstructured.Unstructured {
	out := slices.Clone(w.Roots)
	for _, below := range w.Instances {
		out = append(out, below...)
	}
	for _, below := range w.Children {
		out = append(out, below...)
	}
	return out
}

// instances returns a definition's instances without those that are below another one, as
// the composite of a claim is.
func (w ClusterState) instances(definition *unstructured.Unstructured) []*unstructured.Unstructured {
	all := w.Instances[definition.GetUID()]
	listed := make(map[object.Key]bool, len(all))
	for _, o := range all {
		listed[object.KeyOf(o)] = true
	}
	out := slices.DeleteFunc(slices.Clone(all), func(o *unstructured.Unstructured) bool {
		parent, _, ok := inventory.InstanceOf(o)
		return ok && listed[parent]
	})
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int { return object.KeyOf(a).Compare(object.KeyOf(b)) })
	return out
}

// children returns the children of an instance in the order in which they are applied.
func (w ClusterState) children(o *unstructured.Unstructured) []*unstructured.Unstructured {
	id := inventory.SetOf(o)
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
