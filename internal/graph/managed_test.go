package graph

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

func TestALongListOfObjectsIsCut(t *testing.T) {
	observed := &unstructured.Unstructured{Object: map[string]any{}}
	c := &composition{graph: &Graph{Listed: 3}, facts: plan.Facts{Instance: &unstructured.Unstructured{}}}
	for _, id := range []string{"a", "b"} {
		c.graph.Nodes = append(c.graph.Nodes, &Node{ID: id})
		for i := range 2 {
			c.desired.Nodes = append(c.desired.Nodes, plan.Node{ID: fmt.Sprintf("%s[%d]", id, i), Collection: id, Observed: observed, Object: observed})
		}
	}
	var got []any
	for _, entry := range c.managed() {
		got = append(got, entry.(map[string]any)["nodeID"])
	}
	if diff := cmp.Diff([]any{"a", "a", "b"}, got); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}

// TestANodeThatHasBecomeAValueListsNothing has what the status listed of it before.
func TestANodeThatHasBecomeAValueListsNothing(t *testing.T) {
	before := map[string]any{"status": map[string]any{report.ManagedField: []any{map[string]any{"nodeID": "a", "name": "x"}}}}
	c := &composition{
		graph: &Graph{Listed: 3, Nodes: []*Node{{ID: "a"}}}, facts: plan.Facts{Instance: &unstructured.Unstructured{Object: before}},
		desired: plan.Desired{Nodes: []plan.Node{{ID: "a", Variable: true}}},
	}
	if got := c.managed(); len(got) > 0 {
		t.Errorf("lists %v", got)
	}
}
