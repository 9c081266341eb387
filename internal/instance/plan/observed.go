package plan

import (
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/health"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
)

// AsObserved returns the object with the generation that its status has observed, if the desired fields are the same at
// both generations: the API server raises the generation of some kinds for annotations too, and the controllers raise
// the generation of a composite when they record its composed resources. Before is the object as of the last time that
// its status had observed its generation; nil if that isn't known. Otherwise AsObserved returns the object.
//
// The object isn't changed; the returned one shares its values.
func AsObserved(o, before *unstructured.Unstructured) *unstructured.Unstructured {
	if before == nil || before.GetGeneration() >= o.GetGeneration() || !health.Stale(o) ||
		health.Observed(o) != before.GetGeneration() || !equality.Semantic.DeepEqual(desiredFields(o), desiredFields(before)) {
		return o
	}
	metadata, _ := o.Object["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	metadata["generation"] = before.GetGeneration()
	out := maps.Clone(o.Object)
	out["metadata"] = metadata
	return &unstructured.Unstructured{Object: out}
}

// The controllers of a composite record its composed resources in these fields; see internal/composition/xrd.
var recordedFields = []object.Path{"spec.resourceRefs", "spec.crossplane.resourceRefs"}

func desiredFields(o *unstructured.Unstructured) map[string]any {
	out := maps.Clone(o.Object)
	delete(out, "metadata")
	delete(out, "status")
	if inventory.IsComposite(o) {
		out = object.WithoutFields(out, recordedFields)
	}
	return out
}
