package plan

import (
	"encoding/base64"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// asStored returns the node with its object as the API server stores it: the stringData of a Secret
// becomes data. The API server would do so itself, but record that the manager owns stringData. Nobody
// would own the data then: others could change it without drift, and a key that is no longer desired
// would stay.
func (n Node) asStored() Node {
	if n.Object == nil || n.Object.GetKind() != "Secret" || n.Object.GetAPIVersion() != "v1" {
		return n
	}
	texts, found, err := unstructured.NestedStringMap(n.Object.Object, "stringData")
	data, isMap := n.Object.Object["data"].(map[string]any)
	if !found || err != nil || n.Object.Object["data"] != nil && !isMap {
		return n // there is none, or the API server refuses it
	}
	out := maps.Clone(n.Object.Object)
	delete(out, "stringData")
	if len(texts) > 0 {
		data = maps.Clone(data)
		if data == nil {
			data = map[string]any{}
		}
		for key, text := range texts {
			data[key] = base64.StdEncoding.EncodeToString([]byte(text))
		}
		out["data"] = data
	}
	n.Object = &unstructured.Unstructured{Object: out}
	n.Drift.Paths = slices.Clone(n.Drift.Paths)
	for i, p := range n.Drift.Paths {
		if p.Root() == "stringData" {
			n.Drift.Paths[i] = p.WithRoot("data")
		}
	}
	return n
}
