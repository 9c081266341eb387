package watch

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// owned groups objects by the value of the owner label, each group sorted by namespace and
// name. Objects without an owner are left out.
type owned map[string][]*unstructured.Unstructured

func (o owned) insert(owner string, object *unstructured.Unstructured) {
	if owner == "" {
		return
	}
	group := o[owner]
	i, _ := slices.BinarySearchFunc(group, object, compareObjects)
	o[owner] = slices.Insert(group, i, object)
}

func (o owned) remove(owner string, object *unstructured.Unstructured) {
	group := o[owner]
	i, ok := slices.BinarySearchFunc(group, object, compareObjects)
	switch {
	case !ok:
	case len(group) == 1:
		delete(o, owner)
	default:
		o[owner] = slices.Delete(group, i, i+1)
	}
}

func ownedBy(entries map[objectName]entry, label string) owned {
	o := owned{}
	for _, e := range entries {
		if owner := labelsOf(e.object).Get(label); owner != "" {
			o[owner] = append(o[owner], e.object)
		}
	}
	for owner, group := range o {
		slices.SortFunc(group, compareObjects)
		o[owner] = slices.Clip(group)
	}
	return o
}

func compareObjects(a, b *unstructured.Unstructured) int {
	return compareNames(nameOf(a), nameOf(b))
}
