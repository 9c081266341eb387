package workspace_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/authoring/workspace"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// TestGoldens checks the files of an archive together.
func TestGoldens(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(_ *testing.T, a *golden.Archive) {
		var files []*workspace.File
		for name, text := range a.Input {
			files = append(files, workspace.NewFile(name, text))
		}
		w := workspace.New(files, workspace.Options{})
		var out strings.Builder
		for _, f := range w.Findings() {
			out.WriteString(f.String() + "\n")
		}
		a.Record("findings", out.String())
		out.Reset()
		for _, g := range w.Graphs() {
			out.WriteString(g.Kind.String() + "\n")
		}
		a.Record("graphs", out.String())
	})
}

// TestExamplesHaveNoErrors checks all examples of the repository, each directory together.
func TestExamplesHaveNoErrors(t *testing.T) {
	directories := map[string][]*workspace.File{}
	err := filepath.WalkDir("../../../examples", func(path string, entry os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		directory := filepath.Dir(path)
		directories[directory] = append(directories[directory], workspace.NewFile(path, string(text)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for directory, files := range directories {
		t.Run(filepath.Base(directory), func(t *testing.T) {
			for _, f := range workspace.New(files, workspace.Options{}).Findings() {
				if f.Severity == workspace.Error {
					t.Error(f)
				}
			}
		})
	}
	if len(directories) < 5 {
		t.Errorf("only %d directories", len(directories))
	}
}

// TestNamespacesAreThoseOfTheCluster compares the kinds of definitions with namespaces that the API server drops, or that kubectl sets,
// with those of the definitions as they are stored.
func TestNamespacesAreThoseOfTheCluster(t *testing.T) {
	const spec = "\nspec: {schema: {apiVersion: v1alpha1, kind: Web}}\n"
	crdOf := func(kind, metadata string) *workspace.Graph {
		w := workspace.New([]*workspace.File{workspace.NewFile("web.yaml", "apiVersion: kro.run/v1alpha1\nkind: "+kind+"\nmetadata: "+metadata+spec)}, workspace.Options{})
		for _, f := range w.Findings() {
			if f.Severity == workspace.Error {
				t.Error(f)
			}
		}
		return w.Graphs()[0]
	}
	for name, tc := range map[string]struct{ kind, written, stored string }{
		"a namespace of a cluster-scoped definition": {"ResourceGraphDefinition", "{name: webs, namespace: prod}", "{name: webs}"},
		"a namespaced definition without one":        {"ResourceGroup", "{name: webs}", "{name: webs, namespace: default}"},
	} {
		if diff := cmp.Diff(crdOf(tc.kind, tc.stored).CRD, crdOf(tc.kind, tc.written).CRD); diff != "" {
			t.Errorf("%s (-stored +written):\n%s", name, diff)
		}
	}
}
