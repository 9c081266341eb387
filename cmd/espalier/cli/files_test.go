package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// TestDirectoriesMayHaveLinks reads a directory as Kubernetes mounts a ConfigMap: the files are in a hidden directory, and links lead to them.
func TestDirectoriesMayHaveLinks(t *testing.T) {
	t.Parallel()
	dir, elsewhere := t.TempDir(), t.TempDir()
	write := func(path string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := func(target, path string) {
		t.Helper()
		if err := os.Symlink(target, path); err != nil {
			t.Skip(err)
		}
	}
	write(filepath.Join(dir, "..2026", "mounted.yaml"))
	link("..2026", filepath.Join(dir, "..data"))
	link(filepath.Join("..data", "mounted.yaml"), filepath.Join(dir, "mounted.yaml"))
	write(filepath.Join(elsewhere, "linked.yaml"))
	link(filepath.Join(elsewhere, "linked.yaml"), filepath.Join(dir, "linked.yaml"))
	link("someone@machine.1", filepath.Join(dir, ".#linked.yaml")) // as Emacs locks a file
	root := filepath.Join(elsewhere, "root")
	link(dir, root)
	for _, name := range []string{dir, root} {
		files, err := readFiles(&cobra.Command{}, []string{name})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range files {
			relative, err := filepath.Rel(name, f.Name)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, relative)
		}
		if diff := cmp.Diff([]string{filepath.Join("..2026", "mounted.yaml"), "linked.yaml"}, got); diff != "" {
			t.Errorf("the files of %s (-want +got):\n%s", name, diff)
		}
	}
	link("nowhere.yaml", filepath.Join(dir, "broken.yaml"))
	if _, err := readFiles(&cobra.Command{}, []string{dir}); err == nil {
		t.Error("a link to nowhere is left out")
	}
}
