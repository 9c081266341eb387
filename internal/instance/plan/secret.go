package plan

import (
	"bytes"
	"encoding/base64"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
)

// The stringData of a Secret becomes data. The API server would do so itself, but record that the manager owns
// stringData. Nobody would own the data then: other managers could change it without drift, and a key that is no longer
// desired would stay.
func (n Node) asStored() Node {
	if n.Object == nil {
		return n
	}
	data, ok := object.StoredData(n.Object)
	if !ok {
		return n
	}
	out := &unstructured.Unstructured{Object: maps.Clone(n.Object.Object)}
	delete(out.Object, "stringData")
	if given, _ := out.Object["data"].(map[string]any); len(given) == 0 && len(data) > 0 {
		annotate(out, v1alpha1.StringDataAnnotation, "true")
	}
	if len(data) > 0 {
		out.Object["data"] = data
	}
	n.Object = out
	n.Drift.Paths, n.Drift.External = storedPaths(n.Drift.Paths), storedPaths(n.Drift.External)
	return n
}

func storedPaths(paths []object.Pattern) []object.Pattern {
	paths = slices.Clone(paths)
	for i, p := range paths {
		if p.Root() == "stringData" {
			paths[i] = p.WithRoot("data")
		}
	}
	return paths
}

// ChangedData lists the keys of a Secret's data that have another value on the current object.
func ChangedData(desired, current *unstructured.Unstructured) []object.Path {
	if !object.IsSecret(desired) {
		return nil
	}
	wanted, _ := desired.Object["data"].(map[string]any)
	has, _ := current.Object["data"].(map[string]any)
	var changed []object.Path
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		if value, found := has[key]; found && value != wanted[key] && !sameBytes(value, wanted[key]) {
			changed = append(changed, object.Path("data").Field(key))
		}
	}
	return changed
}

// Base64 may have line breaks, which the API server doesn't store. Values that the API server refuses are the same as
// any.
func sameBytes(a, b any) bool {
	textA, isTextA := a.(string)
	textB, isTextB := b.(string)
	if !isTextA || !isTextB {
		return true
	}
	bytesA, errA := base64.StdEncoding.DecodeString(textA)
	bytesB, errB := base64.StdEncoding.DecodeString(textB)
	return errA != nil || errB != nil || bytes.Equal(bytesA, bytesB)
}

// The object's metadata are shared.
func annotate(o *unstructured.Unstructured, key, value string) {
	shared, _ := o.Object["metadata"].(map[string]any)
	metadata := make(map[string]any, len(shared)+1)
	maps.Copy(metadata, shared)
	o.Object["metadata"] = metadata
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	o.SetAnnotations(annotations)
}
