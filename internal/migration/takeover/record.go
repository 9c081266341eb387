package takeover

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	graphs "github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
)

// RecordPatch returns the JSON patch of the status of a Graph that records the children that it lacks: kro knows the objects
// of a Graph by this record alone. It is nil if the record is complete. The API server rejects the patch with a conflict if
// the Graph has changed in between.
func RecordPatch(graph *unstructured.Unstructured, children []unstructured.Unstructured) ([]byte, error) {
	recorded, changed := report.ReadManaged(graph), false
	at := map[object.Key]int{}
	for i, m := range recorded {
		at[keyOf(m)] = i
	}
	children = slices.SortedStableFunc(slices.Values(children), func(a, b unstructured.Unstructured) int {
		return cmp.Compare(inventory.Layer(&a), inventory.Layer(&b))
	})
	for i := range children {
		o := &children[i]
		m := v1alpha1.ManagedResource{
			NodeID: inventory.Node(o), APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName(), UID: string(o.GetUID()),
		}
		switch known, ok := at[object.KeyOf(o)]; {
		case !ok:
			recorded, changed = append(recorded, m), true
		case recorded[known].UID != m.UID:
			recorded[known], changed = m, true
		}
	}
	switch {
	case !changed:
		return nil, nil
	case len(recorded) > graphs.MaxListedOfGraph:
		return nil, fmt.Errorf("it has %d objects, and kro records at most %d; split the Graph before it is given back", len(recorded), graphs.MaxListedOfGraph)
	}
	patch := []operation{{"replace", "/metadata/resourceVersion", graph.GetResourceVersion()}}
	if graph.Object["status"] == nil {
		patch = append(patch, operation{"add", "/status", map[string]any{}})
	}
	return json.Marshal(append(patch, operation{"add", "/status/" + report.ManagedField, recorded}))
}

func keyOf(m v1alpha1.ManagedResource) object.Key {
	return object.Key{Group: schema.FromAPIVersionAndKind(m.APIVersion, m.Kind).Group, Kind: m.Kind, Namespace: m.Namespace, Name: m.Name}
}
