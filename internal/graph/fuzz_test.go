package graph_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/kind"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// goldenDefinitions are the definitions of all goldens, by file.
func goldenDefinitions(t testing.TB) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, a := range golden.Read(t, "testdata/*.txtar") {
		out[a.Path] = a.Input["definition.yaml"]
	}
	return out
}

// FuzzDefinition compiles mutations of the goldens' definitions, and composes instances of
// any spec with those that compile, until all objects exist. It does the same with embedded
// graphs.
func FuzzDefinition(f *testing.F) {
	definitions := goldenDefinitions(f)
	for _, path := range slices.Sorted(maps.Keys(definitions)) {
		f.Add(definitions[path], "{name: n, replicas: 2, zones: [a, b], sizes: {a: 1}, ports: [{name: p, number: 1}], enabled: true}")
	}
	kinds := commonKinds(f, "")
	f.Fuzz(func(t *testing.T, text, spec string) {
		var d v1alpha1.ResourceGraphDefinition
		if yaml.Unmarshal([]byte(text), &d) != nil {
			t.Skip("no definition")
		}
		began := time.Now()
		if g := checkCompiler(t, &d, kinds); g != nil {
			facts := someInstance(g)
			var fields map[string]any
			if raw, err := yaml.YAMLToJSON([]byte(spec)); err == nil && utiljson.Unmarshal(raw, &fields) == nil && fields != nil {
				facts.Instance.Object["spec"] = fields
			}
			for range 4 {
				facts = grown(facts, checkPass(t, g, facts))
			}
		}
		if g, _ := graph.CompileEmbedded(&d.Spec, kinds, graph.Embedded{Ready: func(*unstructured.Unstructured) string { return "" }}); g != nil {
			facts := someInstance(g)
			for range 3 {
				desired := checkPass(t, g, facts)
				facts = grown(facts, desired)
				for _, n := range desired.Nodes { // a host knows items by their ids
					if n.Object != nil && n.Collection != "" {
						facts.Owned[n.ID] = []*unstructured.Unstructured{n.Object}
					}
				}
			}
		}
		if took := time.Since(began); took > longest {
			t.Fatalf("it took %s", took)
		}
	})
}

// longest is how long a definition of a few nodes may take, with two compilations and
// several passes, on a machine that does something else as well.
const longest = 20 * time.Second

// grown are the facts when all objects are there that are wanted, and everything that
// was asked for has been looked for.
func grown(facts plan.Facts, desired plan.Desired) plan.Facts {
	next := facts
	next.Owned, next.External = map[string][]*unstructured.Unstructured{}, map[plan.Need]plan.Lookup{}
	var all []*unstructured.Unstructured
	owner := inventory.OwnerOf(facts.Instance, object.Definition{Name: "fuzzed"}, "v1")
	for _, n := range desired.Nodes {
		if n.Object == nil || n.External {
			continue
		}
		o := n.Object.DeepCopy()
		node := n.ID
		if n.Collection != "" {
			node = n.Collection
		}
		owner.Mark(o, inventory.Place{Node: node, Item: n.Item, Layer: n.Layer})
		o.SetUID(types.UID(n.ID))
		o.Object["status"] = map[string]any{"networkID": "n-1", "subnetID": "s-1", "state": "up"}
		next.Owned[node] = append(next.Owned[node], o)
		all = append(all, o)
	}
	for _, need := range desired.Needs {
		look := plan.Lookup{Objects: all}
		if !need.Multiple && len(all) > 0 {
			look = plan.Lookup{Object: all[0]}
		}
		next.External[need] = look
	}
	return next
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
	kind.For(g, d.Spec.Schema, object.Definition{Name: "fuzzed"}, kind.Options{Version: "v1"})
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
	p := plan.Compute(desired, facts, plan.History{}, inventory.OwnerOf(facts.Instance, object.Definition{Name: "fuzzed"}, "v1"), v1alpha1.ChildManager)
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
