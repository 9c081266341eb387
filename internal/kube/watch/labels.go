package watch

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// labelSet reads the labels of an unstructured object where they lie. Asking
// the object for them would copy the map for every event.
type labelSet map[string]any

func labelsOf(o *unstructured.Unstructured) labelSet {
	return labelSet(child(metadataOf(o), "labels"))
}

func metadataOf(o *unstructured.Unstructured) map[string]any {
	return child(o.Object, "metadata")
}

func child(m map[string]any, name string) map[string]any {
	c, _ := m[name].(map[string]any)
	return c
}

// Lookup, Get and Has implement labels.Labels.
func (l labelSet) Lookup(key string) (string, bool) {
	value, ok := l[key].(string)
	return value, ok
}

// Get returns the label's value, empty if there is none.
func (l labelSet) Get(key string) string {
	value, _ := l.Lookup(key)
	return value
}

// Has tells whether there is such a label.
func (l labelSet) Has(key string) bool {
	_, ok := l.Lookup(key)
	return ok
}

func placeOf(o *unstructured.Unstructured) place {
	return place{nameOf(o), labelsOf(o)}
}

func nameOf(o *unstructured.Unstructured) objectName {
	m := metadataOf(o)
	namespace, _ := m["namespace"].(string)
	name, _ := m["name"].(string)
	return objectName{namespace, name}
}
