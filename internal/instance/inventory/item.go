package inventory

import (
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// Item is a place in a collection.
type Item struct {
	// Index is the place, from 0, and Size the number of items.
	Index, Size int
}

func (i *Item) mark(labels map[string]string) {
	if i != nil {
		labels[v1alpha1.CollectionIndexLabel] = strconv.Itoa(i.Index)
		labels[v1alpha1.CollectionSizeLabel] = strconv.Itoa(i.Size)
	}
}

// ItemOf reads the place of a child in its collection; nil if it is in none.
func ItemOf(child *unstructured.Unstructured) *Item {
	index, err := strconv.Atoi(label(child, v1alpha1.CollectionIndexLabel))
	if err != nil || index < 0 {
		return nil
	}
	size, err := strconv.Atoi(label(child, v1alpha1.CollectionSizeLabel))
	if err != nil || size < 0 {
		return nil
	}
	return &Item{Index: index, Size: size}
}

// ItemID is the id of an item of a collection among the nodes of its instance: by the name of its object, with the
// namespace if that isn't home, the instance's own. The name identifies the item; its place doesn't, because that
// shifts.
func ItemID(collection, home, namespace, name string) string {
	if namespace != "" && namespace != home {
		name = namespace + "/" + name
	}
	return collection + "[" + name + "]"
}

// NodeID is the id of the node that created a child, among the nodes of an instance in namespace
// home: an item of a collection is a node of its own.
func NodeID(child *unstructured.Unstructured, home string) string {
	if ItemOf(child) == nil {
		return Node(child)
	}
	return ItemID(Node(child), home, child.GetNamespace(), child.GetName())
}
