package object

import (
	"encoding/base64"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// IsSecret reports whether an object is a Secret of Kubernetes.
func IsSecret(o *unstructured.Unstructured) bool {
	return o.GetKind() == "Secret" && o.GetAPIVersion() == "v1"
}

// StoredData returns the data of a Secret with stringData as the API server stores it: stringData takes
// precedence. Ok is false for other objects, and for a Secret that the API server refuses.
func StoredData(o *unstructured.Unstructured) (data map[string]any, ok bool) {
	given := o.Object["data"]
	data, isMap := given.(map[string]any)
	if !IsSecret(o) || given != nil && !isMap {
		return nil, false
	}
	texts, found, err := unstructured.NestedStringMap(o.Object, "stringData")
	if !found || err != nil {
		return nil, false
	}
	out := make(map[string]any, len(data)+len(texts))
	maps.Copy(out, data)
	for key, text := range texts {
		out[key] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	return out, true
}

// SecretData decodes the data of a Secret, without what is not valid.
func SecretData(secret *unstructured.Unstructured) map[string][]byte {
	data, _, _ := unstructured.NestedMap(secret.Object, "data")
	out := make(map[string][]byte, len(data))
	for key, value := range data {
		text, _ := value.(string)
		if plain, err := base64.StdEncoding.DecodeString(text); err == nil {
			out[key] = plain
		}
	}
	return out
}
