package workspace_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit/golden"
	"github.com/espalier-dev/espalier/internal/workspace"
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
	err := filepath.WalkDir("../../examples", func(path string, entry os.DirEntry, err error) error {
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
