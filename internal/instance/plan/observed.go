package plan

import (
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/health"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
)

// AsObserved is an object at the generation that its status tells of, if nothing is wanted
// otherwise since: the API server raises the generation of some kinds for annotations as
// well, and the controllers raise that of a composite when they record what it is composed
// of. Before is the object as it was when its status last told of its own generation; nil if
// that isn't known. In all other cases it is the object as it is.
//
// The object isn't changed; what is returned shares its values.
func AsObserved(o, before *unstructured.Unstructured) *unstructured.Unstructured {
	if before == nil || before.GetGeneration() >= o.GetGeneration() || !health.Stale(o) ||
		health.Observed(o) != before.GetGeneration() || !equality.Semantic.DeepEqual(wantedOf(o), wantedOf(before)) {
		return o
	}
	metadata, _ := o.Object["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	metadata["generation"] = before.GetGeneration()
	out := maps.Clone(o.Object)
	out["metadata"] = metadata
	return &unstructured.Unstructured{Object: out}
}

// recorded are the fields of a composite in which its controllers record what it is composed
// of; see internal/composition/xrd.
var recorded = []object.Path{"spec.resourceRefs", "spec.crossplane.resourceRefs"}

// wantedOf is what is wanted of an object.
func wantedOf(o *unstructured.Unstructured) map[string]any {
	out := maps.Clone(o.Object)
	delete(out, "metadata")
	delete(out, "status")
	if inventory.IsComposite(o) {
		out = object.Without(out, recorded)
	}
	return out
}
