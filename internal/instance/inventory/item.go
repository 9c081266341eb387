package inventory

import (
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// Item is a place in a collection.
type Item struct {
	// Index is the place, from 0, and Size how many there are.
	Index, Size int
}

func (i *Item) mark(labels map[string]string) {
	if i != nil {
		labels[v1alpha1.CollectionIndexLabel] = strconv.Itoa(i.Index)
		labels[v1alpha1.CollectionSizeLabel] = strconv.Itoa(i.Size)
	}
}

// ItemOf reads where a child stands in its collection; nil for one that is in none.
func ItemOf(child *unstructured.Unstructured) *Item {
	labels := child.GetLabels()
	index, err := strconv.Atoi(labels[v1alpha1.CollectionIndexLabel])
	if err != nil || index < 0 {
		return nil
	}
	size, err := strconv.Atoi(labels[v1alpha1.CollectionSizeLabel])
	if err != nil || size < 0 {
		return nil
	}
	return &Item{Index: index, Size: size}
}

// ItemID names an item of a collection among the nodes of its instance: by what its
// object is called, with the namespace where that isn't the instance's own. The name
// is the item's identity, its place isn't: that shifts.
func ItemID(collection, home, namespace, name string) string {
	if namespace != "" && namespace != home {
		name = namespace + "/" + name
	}
	return collection + "[" + name + "]"
}

// NodeID names, among the nodes of an instance whose namespace is home, the one that
// made a child: an item of a collection is a node of its own.
func NodeID(child *unstructured.Unstructured, home string) string {
	if ItemOf(child) == nil {
		return Node(child)
	}
	return ItemID(Node(child), home, child.GetNamespace(), child.GetName())
}
