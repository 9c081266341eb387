package graph_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/kind"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// TestGoldens reads testdata. Each archive is a story: definition.yaml or, for a Graph, graph.yaml; kinds.yaml
// with kinds beside the common ones, and world.yaml with an instance and what is
// observed of its world. The files that begin with want- are what becomes of it:
// the diagnostics, or the graph, the CustomResourceDefinition (where the archive
// has a place for it) and each pass over the instance.
func TestGoldens(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, a *golden.Archive) {
		d := definition(t, a.Input["definition.yaml"])
		kinds := commonKinds(t, a.Input["kinds.yaml"])
		g, problems := graph.Compile(&d.Spec, kinds)
		if text, is := a.Input["graph.yaml"]; is {
			var own v1alpha1.Graph
			decode(t, text, &own)
			g, problems = graph.CompileGraph(&own.Spec, kinds)
		}
		if problems != nil {
			if g != nil {
				t.Error("a definition with problems has a graph")
			}
			a.Record("diagnostics", problems.Err().Error())
			return
		}
		a.Record("graph", describeGraph(g))
		if len(g.Warnings) > 0 {
			a.Record("warnings", g.Warnings.Err().Error())
		}
		owner := object.Definition{Name: d.Name, Namespace: d.Namespace, UID: d.UID}
		if a.Wants("crd.yaml") {
			a.Record("crd.yaml", golden.YAML(t, kind.For(g, d.Spec.Schema, owner, kind.Options{Version: "v1.2.3"})))
		}
		if text, ok := a.Input["world.yaml"]; ok {
			for i, pass := range runPasses(t, g, owner, text) {
				a.Record("pass-"+strconv.Itoa(i+1), pass)
			}
		}
	})
}

// TestOrderOfResourcesDoesNotMatter compiles each golden that compiles with its
// resources in other orders.
func TestOrderOfResourcesDoesNotMatter(t *testing.T) {
	for _, a := range golden.Read(t, "testdata/*.txtar") {
		if a.Input["definition.yaml"] == "" {
			continue
		}
		d := definition(t, a.Input["definition.yaml"])
		kinds := commonKinds(t, a.Input["kinds.yaml"])
		g, problems := graph.Compile(&d.Spec, kinds)
		if problems != nil {
			continue
		}
		want := describeGraph(g)
		for range d.Spec.Resources {
			d.Spec.Resources = append(d.Spec.Resources[1:], d.Spec.Resources[0])
			checkSame(t, a.Path, want, d, kinds)
		}
		slices.Reverse(d.Spec.Resources)
		checkSame(t, a.Path, want, d, kinds)
	}
}
