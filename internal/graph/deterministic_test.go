package graph_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/crd"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/inventory"
)

// TestCompilationIsTheSameOnEveryCluster compiles each golden several times, with schemas
// that are read anew, in whatever order maps have, on clusters that know other kinds as
// well.
func TestCompilationIsTheSameOnEveryCluster(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no goldens: %v", err)
	}
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		in := map[string]string{}
		for _, f := range archive.Files {
			in[f.Name] = string(f.Data)
		}
		want := ""
		for cluster := range 8 {
			kinds := commonKinds(t, in["kinds.yaml"])
			for i := range 5 * cluster {
				other := schema.GroupVersionKind{Group: fmt.Sprint("more", cluster, ".example.com"), Version: "v1", Kind: fmt.Sprint("Kind", i)}
				kinds[other] = graph.Kind{Namespaced: i%2 == 0, Revision: fmt.Sprint(i)}
			}
			got := outcome(t, in["definition.yaml"], kinds)
			if want == "" {
				want = got
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: on another cluster (-want +got):\n%s", path, diff)
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
	made := asYAML(t, crd.For(g, d.Spec.Schema, inventory.Definition{Name: d.Name}, crd.Options{Version: "v1"}))
	return describeGraph(g) + made + asYAML(t, checkPass(t, g, someInstance(g)).Nodes)
}
