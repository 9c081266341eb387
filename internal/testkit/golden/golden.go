// Package golden compares what code gives with what files have recorded. Tests that use it
// rewrite those files when they run with -update.
//
// An archive is a txtar file: a comment that says what it shows, input files, and the files
// that are expected, with names that begin with "want-".
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "rewrite what golden files expect")

// prefix begins the names of files that are expected.
const prefix = "want-"

// Update reports whether tests run with -update.
func Update() bool { return *update }

// Archive is one golden archive.
type Archive struct {
	// Name is the file's name without its extension, Path where it is.
	Name, Path string
	// Input holds the input files by name.
	Input map[string]string

	archive *txtar.Archive
	wants   map[string]bool
	got     []txtar.File
}

// Wants reports whether the archive has an expected file want-NAME.
func (a *Archive) Wants(name string) bool { return a.wants[name] }

// Fresh reports whether the archive has no expected files yet.
func (a *Archive) Fresh() bool { return len(a.wants) == 0 }

// Got adds the file want-NAME to what the code gives. Files are written in the order in
// which they are added; an empty text is an empty file.
func (a *Archive) Got(name, text string) {
	if text = strings.TrimRight(text, "\n"); text != "" {
		text += "\n"
	}
	a.got = append(a.got, txtar.File{Name: prefix + name, Data: []byte(text)})
}

// Read reads the archives that match the pattern. A pattern without matches fails the test.
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

// Run runs a subtest for each archive that matches the pattern. Render adds to the archive
// what the code gives for its input; that must be what the archive expects, and the same
// when it is rendered twice.
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

// render returns the archive with its expectations replaced.
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
