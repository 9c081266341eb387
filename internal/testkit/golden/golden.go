// Package golden compares the output of code with recorded files. With -update, tests rewrite
// the files.
//
// An archive is a txtar file: a comment that explains it, input files, and expected files,
// the names of which begin with "want-".
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite what golden files expect")

// prefix begins the names of expected files.
const prefix = "want-"

// Update reports whether tests run with -update.
func Update() bool { return *update }

// Archive is one golden archive.
type Archive struct {
	// Name is the name of the archive's file without its extension, Path its path.
	Name, Path string
	// Input holds the input files by name.
	Input map[string]string

	archive *txtar.Archive
	wants   map[string]bool
	got     []txtar.File
}

// Wants reports whether the archive has an expected file want-NAME.
func (a *Archive) Wants(name string) bool { return a.wants[name] }

// IsNew reports whether the archive has no expected files yet.
func (a *Archive) IsNew() bool { return len(a.wants) == 0 }

// Record adds the file want-NAME to the output. Files are compared and written in the order
// in which they are recorded; an empty text is an empty file.
func (a *Archive) Record(name, text string) {
	if text = strings.TrimRight(text, "\n"); text != "" {
		text += "\n"
	}
	a.got = append(a.got, txtar.File{Name: prefix + name, Data: []byte(text)})
}

// Read reads the archives that match the pattern. The test fails if there are none.
func Read(tb testing.TB, pattern string) []*Archive {
	tb.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil {
		tb.Fatal(err)
	}
	if len(paths) == 0 {
		tb.Fatalf("no golden files match %s", pattern)
	}
	var out []*Archive
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		a := &Archive{
			Name: strings.TrimSuffix(filepath.Base(path), ".txtar"), Path: path,
			Input: map[string]string{}, archive: archive, wants: map[string]bool{},
		}
		for _, f := range archive.Files {
			if name, ok := strings.CutPrefix(f.Name, prefix); ok {
				a.wants[name] = true
			} else {
				a.Input[f.Name] = string(f.Data)
			}
		}
		out = append(out, a)
	}
	return out
}

// Run runs a subtest for each archive that matches the pattern. Render records the output for
// the archive's input. The output must equal the expected files, also when rendered twice.
func Run(t *testing.T, pattern string, render func(*testing.T, *Archive)) {
	t.Helper()
	for _, a := range Read(t, pattern) {
		t.Run(a.Name, func(t *testing.T) {
			got := a.render(t, render)
			if diff := cmp.Diff(got, a.render(t, render)); diff != "" {
				t.Errorf("the same input gives different output (-first +second):\n%s", diff)
			}
			compare(t, a.Path, string(txtar.Format(a.archive)), got)
		})
	}
}

// render returns the archive with its expected files replaced by the output.
func (a *Archive) render(t *testing.T, render func(*testing.T, *Archive)) string {
	t.Helper()
	a.got = nil
	render(t, a)
	out := &txtar.Archive{Comment: a.archive.Comment}
	for _, f := range a.archive.Files {
		if !strings.HasPrefix(f.Name, prefix) {
			out.Files = append(out.Files, f)
		}
	}
	out.Files = append(out.Files, a.got...)
	return string(txtar.Format(out))
}

// YAML renders a value as YAML.
func YAML(tb testing.TB, v any) string {
	tb.Helper()
	raw, err := yaml.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return string(raw)
}

// Compare fails the test unless the file holds the text.
func Compare(t *testing.T, path, got string) {
	t.Helper()
	want, err := os.ReadFile(path)
	if err != nil && !*update {
		t.Fatal(err)
	}
	compare(t, path, string(want), got)
}

func compare(t *testing.T, path, want, got string) {
	t.Helper()
	if want == got {
		return
	}
	if !*update {
		t.Errorf("%s (-want +got):\n%s", path, cmp.Diff(want, got))
		return
	}
	if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
		t.Fatal(err)
	}
}
