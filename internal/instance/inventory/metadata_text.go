package inventory

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// label and annotation are values of an object that an API server has stored; empty for none. The methods of
// the object copy all of them for each.
func label(o *unstructured.Unstructured, key string) string {
	value, _ := textOf(o, "labels", key)
	return value
}

func annotation(o *unstructured.Unstructured, key string) string {
	value, _ := textOf(o, "annotations", key)
	return value
}

func textOf(o *unstructured.Unstructured, field, key string) (value string, ok bool) {
	metadata, _ := o.Object["metadata"].(map[string]any)
	texts, _ := metadata[field].(map[string]any)
	value, ok = texts[key].(string)
	return value, ok
}
