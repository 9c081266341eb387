package graph_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/espalier-dev/espalier/internal/crd"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/inventory"
)

var update = flag.Bool("update", false, "rewrite what the goldens expect")

// TestGoldens reads testdata. Each archive is a story: definition.yaml, kinds.yaml
// with kinds beside the common ones, and world.yaml with an instance and what is
// observed of its world. The files that begin with want- are what becomes of it:
// the diagnostics, or the graph, the CustomResourceDefinition (where the archive
// has a place for it) and each pass over the instance.
func TestGoldens(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no goldens: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := txtar.Format(retell(t, archive))
			if again := txtar.Format(retell(t, archive)); !cmp.Equal(got, again) {
				t.Errorf("the same input twice gives different answers:\n%s", cmp.Diff(string(got), string(again)))
			}
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(txtar.Format(archive)), string(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// retell returns the archive with its expectations computed anew.
func retell(t *testing.T, archive *txtar.Archive) *txtar.Archive {
	in := map[string]string{}
	out := &txtar.Archive{Comment: archive.Comment}
	for _, f := range archive.Files {
		in[f.Name] = string(f.Data)
		if !strings.HasPrefix(f.Name, "want-") {
			out.Files = append(out.Files, f)
		}
	}
	add := func(name, text string) {
		out.Files = append(out.Files, txtar.File{Name: name, Data: []byte(strings.TrimRight(text, "\n") + "\n")})
	}
	d := definition(t, in["definition.yaml"])
	g, problems := graph.Compile(&d.Spec, commonKinds(t, in["kinds.yaml"]))
	if problems != nil {
		if g != nil {
			t.Error("a definition with problems has a graph")
		}
		add("want-diagnostics", problems.Err().Error())
		return out
	}
	add("want-graph", describeGraph(g))
	owner := inventory.Definition{Name: d.Name, Namespace: d.Namespace, UID: d.UID}
	if _, ok := in["want-crd.yaml"]; ok {
		add("want-crd.yaml", asYAML(t, crd.For(g, d.Spec.Schema, owner, crd.Options{Version: "v1.2.3"})))
	}
	if text, ok := in["world.yaml"]; ok {
		for i, pass := range passes(t, g, owner, text) {
			add("want-pass-"+strconv.Itoa(i+1), pass)
		}
	}
	return out
}

// TestOrderOfResourcesHasNoMeaning compiles each golden that compiles with its
// resources in other orders.
func TestOrderOfResourcesHasNoMeaning(t *testing.T) {
	paths, _ := filepath.Glob("testdata/*.txtar")
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		in := map[string]string{}
		for _, f := range archive.Files {
			in[f.Name] = string(f.Data)
		}
		d := definition(t, in["definition.yaml"])
		kinds := commonKinds(t, in["kinds.yaml"])
		g, problems := graph.Compile(&d.Spec, kinds)
		if problems != nil {
			continue
		}
		want := describeGraph(g)
		for range d.Spec.Resources {
			d.Spec.Resources = append(d.Spec.Resources[1:], d.Spec.Resources[0])
			checkSame(t, path, want, d, kinds)
		}
		slices.Reverse(d.Spec.Resources)
		checkSame(t, path, want, d, kinds)
	}
}
