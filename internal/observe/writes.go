package observe

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/managedfields"
	"github.com/espalier-dev/espalier/internal/kube/ownership"
	"github.com/espalier-dev/espalier/internal/object"
)

// Compile compiles a definition or a Graph without the schemas of kinds; nil if that fails, or if it is nil.
func Compile(definition *unstructured.Unstructured) *graph.Graph {
	if definition == nil {
		return nil
	}
	raw, _, _ := unstructured.NestedMap(definition.Object, "spec")
	if definition.GroupVersionKind() == graph.GraphKind {
		spec, _ := graph.ReadGraph(raw)
		compiled, _ := graph.CompileGraph(spec, graph.Kinds{}, graph.WithSecretOutputs(graph.WarnOfSecretOutputs))
		return compiled
	}
	spec, _ := graph.Read(raw)
	compiled, _ := graph.Compile(spec, graph.Kinds{}, graph.WithSecretOutputs(graph.WarnOfSecretOutputs))
	return compiled
}

// Write is what a manager last wrote of an object.
type Write struct {
	Manager     string     `json:"manager"`
	Operation   string     `json:"operation"`
	Subresource string     `json:"subresource,omitempty"`
	Time        *time.Time `json:"time,omitempty"`
}

// Writes lists the last write of each manager of an object, the latest first.
func Writes(o *unstructured.Unstructured) []Write {
	var out []Write
	for e := range ownership.Entries(o) {
		w := Write{Manager: e.Manager, Operation: string(e.Operation), Subresource: e.Subresource}
		if at := e.Time(); !at.IsZero() {
			w.Time = &at
		}
		out = append(out, w)
	}
	slices.SortStableFunc(out, func(a, b Write) int {
		return cmp.Or(timeOf(b).Compare(timeOf(a)), cmp.Compare(a.Manager, b.Manager), cmp.Compare(a.Subresource, b.Subresource))
	})
	return out
}

func timeOf(w Write) time.Time {
	if w.Time == nil {
		return time.Time{}
	}
	return *w.Time
}

// Differences explains the fields of a child that the definition of its instance sets, and that other managers have taken over
// since: the API server moves the ownership of a field to who changes its value. The root of the state is the instance.
// Fields that others have removed are not found.
func Differences(o *unstructured.Unstructured, w ClusterState, compiled *graph.Graph) []FieldExplanation {
	if compiled == nil || w.Root == nil {
		return nil
	}
	applied, node := managedfields.Applied(o, v1alpha1.ChildManager), inventory.Node(o)
	if applied.Empty() {
		return nil
	}
	var out []FieldExplanation
	for _, name := range slices.Sorted(maps.Keys(o.Object)) {
		if name == "apiVersion" || name == "kind" || name == "status" {
			continue
		}
		for _, path := range ownership.UnownedPaths(name, o.Object[name], applied, object.Path("")) {
			if _, isSet := compiled.SourceOf(node, o.Object, path.Segments()); !isSet || isIdentity(path) {
				continue
			}
			out = append(out, ExplainField(o, path, w, compiled))
		}
	}
	return out
}

// isIdentity reports whether a field names the object: no manager owns it.
func isIdentity(path object.Path) bool {
	return path == "metadata.name" || path == "metadata.namespace"
}
