package graph_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/kind"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// TestCompilationIsTheSameOnEveryCluster compiles each golden several times: with newly
// parsed schemas, in any map order, and on clusters with further kinds.
func TestCompilationIsTheSameOnEveryCluster(t *testing.T) {
	for _, a := range golden.Read(t, "testdata/*.txtar") {
		want := ""
		for cluster := range 8 {
			kinds := commonKinds(t, a.Input["kinds.yaml"])
			for i := range 5 * cluster {
				other := schema.GroupVersionKind{Group: fmt.Sprint("more", cluster, ".example.com"), Version: "v1", Kind: fmt.Sprint("Kind", i)}
				kinds[other] = object.KindInfo{Namespaced: i%2 == 0, Revision: fmt.Sprint(i)}
			}
			got := outcome(t, a.Input["definition.yaml"], kinds)
			if want == "" {
				want = got
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: on another cluster (-want +got):\n%s", a.Path, diff)
				break
			}
		}
	}
}

// outcome is all that follows from a definition: its problems, or its graph, the kind that
// it defines, and what a new instance wants.
func outcome(t *testing.T, text string, kinds graph.Kinds) string {
	d := definition(t, text)
	g, problems := graph.Compile(&d.Spec, kinds)
	if problems != nil {
		return problems.Err().Error()
	}
	made := golden.YAML(t, kind.For(g, d.Spec.Schema, object.Definition{Name: d.Name}, kind.Options{Version: "v1"}))
	return describeGraph(g) + made + golden.YAML(t, checkPass(t, g, someInstance(g)).Nodes)
}
