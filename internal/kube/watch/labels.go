package watch

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// labelSet reads the labels of an unstructured object in place. GetLabels would copy the
// map for every event.
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

// Lookup returns a label's value, and whether the label exists.
func (l labelSet) Lookup(key string) (string, bool) {
	value, ok := l[key].(string)
	return value, ok
}

// Get returns the label's value, empty if there is none.
func (l labelSet) Get(key string) string {
	value, _ := l.Lookup(key)
	return value
}

// Has reports whether the label exists.
func (l labelSet) Has(key string) bool {
	_, ok := l.Lookup(key)
	return ok
}

func identityOf(o *unstructured.Unstructured) identity {
	return identity{nameOf(o), labelsOf(o)}
}

func nameOf(o *unstructured.Unstructured) objectName {
	m := metadataOf(o)
	namespace, _ := m["namespace"].(string)
	name, _ := m["name"].(string)
	return objectName{namespace, name}
}
