package graph_test

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/crd"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/plan"
)

// goldenDefinitions are the definitions of all goldens, by file.
func goldenDefinitions(t testing.TB) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no goldens: %v", err)
	}
	out := map[string]string{}
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range archive.Files {
			if file.Name == "definition.yaml" {
				out[path] = string(file.Data)
			}
		}
	}
	return out
}

// FuzzDefinition feeds the compiler with mutations of the goldens' definitions.
func FuzzDefinition(f *testing.F) {
	definitions := goldenDefinitions(f)
	for _, path := range slices.Sorted(maps.Keys(definitions)) {
		f.Add(definitions[path])
	}
	kinds := commonKinds(f, "")
	f.Fuzz(func(t *testing.T, text string) {
		var d v1alpha1.ResourceGraphDefinition
		if yaml.Unmarshal([]byte(text), &d) != nil {
			t.Skip("no definition")
		}
		checkCompiler(t, &d, kinds)
	})
}

// failer is what a test, a fuzz target and a property have in common.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// checkCompiler compiles a definition: it is a graph, or problems that say
// something; twice it is the same; a graph makes a kind, and composes an
// instance of which nothing is known.
func checkCompiler(t failer, d *v1alpha1.ResourceGraphDefinition, kinds graph.Kinds) *graph.Graph {
	t.Helper()
	g, problems := graph.Compile(&d.Spec, kinds)
	if (g == nil) != (len(problems) > 0) {
		t.Fatalf("graph: %t, problems: %v", g != nil, problems)
	}
	for _, p := range problems {
		if p.Problem == "" || p.Offset < 0 || p.Offset > len(p.Expr) {
			t.Fatalf("a problem that says nothing, or points nowhere: %+v", p)
		}
	}
	again, second := graph.Compile(&d.Spec, kinds)
	if problems.Err() != nil && problems.Err().Error() != second.Err().Error() {
		t.Fatalf("the same definition has other problems:\n%v\n%v", problems.Err(), second.Err())
	}
	if g == nil {
		return nil
	}
	if describeGraph(g) != describeGraph(again) {
		t.Fatalf("the same definition has another graph:\n%s\n%s", describeGraph(g), describeGraph(again))
	}
	crd.For(g, d.Spec.Schema, inventory.Definition{Name: "fuzzed"}, "v1")
	checkPass(t, g, someInstance(g))
	return g
}

func someInstance(g *graph.Graph) plan.Facts {
	instance := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "x", "namespace": "y"}}}
	instance.SetGroupVersionKind(g.Kind)
	return plan.Facts{Instance: instance, Now: began}
}

func checkPass(t failer, g *graph.Graph, facts plan.Facts) plan.Desired {
	t.Helper()
	desired := g.Compose(facts)
	p := plan.Compute(desired, facts, plan.History{}, inventory.OwnerOf(facts.Instance, inventory.Definition{Name: "fuzzed"}, "v1"), v1alpha1.ChildManager)
	if len(p.Steps) != len(desired.Nodes) {
		t.Fatalf("%d steps for %d nodes", len(p.Steps), len(desired.Nodes))
	}
	for _, n := range g.Nodes {
		if !slices.ContainsFunc(desired.Nodes, func(d plan.Node) bool { return d.ID == n.ID || d.Collection == n.ID }) {
			t.Fatalf("nothing is said of %s", n.ID)
		}
	}
	plan.Summarize(p, facts.Now)
	return desired
}
