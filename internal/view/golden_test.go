package view_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/view"
)

var update = flag.Bool("update", false, "rewrite what the goldens expect")

// outputs are the files of a golden that are expected; the others are input:
// objects.yaml with the root first, and now.
var outputs = []string{"table", "narrow", "notes", "blockers", "json"}

// TestGoldens reads testdata: objects and the time, and how they look as a
// table, as a table of 80 columns with the notes below it, what holds them up, and as JSON.
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
			in := map[string]string{}
			for _, f := range archive.Files {
				in[f.Name] = string(f.Data)
			}
			got := render(t, in)
			if *update {
				rewrite(t, path, archive, got)
				return
			}
			for _, name := range outputs {
				if want, expected := in[name]; expected || name == "table" {
					if diff := cmp.Diff(want, got[name]); diff != "" {
						t.Errorf("%s: %s (-want +got):\n%s", path, name, diff)
					}
				}
			}
		})
	}
}

func render(t *testing.T, in map[string]string) map[string]string {
	t.Helper()
	now, err := time.Parse(time.RFC3339, strings.TrimSpace(in["now"]))
	if err != nil {
		t.Fatal(err)
	}
	tree := view.Build(world(t, in["objects.yaml"]), now)
	rows := view.Rows(tree, now)
	return map[string]string{
		"table":    view.Table(rows, 0),
		"narrow":   view.Table(rows, 80),
		"notes":    text(view.Notes(rows, 80)),
		"json":     string(tree.JSON()),
		"blockers": view.HoldupOf(tree).Text(now),
	}
}

// text is lines as a file has them.
func text(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// world reads objects, the root first.
func world(t *testing.T, text string) view.World {
	t.Helper()
	w := view.World{Instances: map[types.UID][]*unstructured.Unstructured{}, Children: map[string][]*unstructured.Unstructured{}, Definitions: map[types.NamespacedName]*unstructured.Unstructured{}}
	for _, doc := range strings.Split(text, "\n---\n") {
		o := &unstructured.Unstructured{}
		raw, err := yaml.YAMLToJSON([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		if err := o.UnmarshalJSON(raw); err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		if o.GetKind() == "ResourceGraphDefinition" && w.Root != nil {
			w.Definitions[types.NamespacedName{Name: o.GetName()}] = o
			continue
		}
		if w.Root == nil {
			w.Root = o
			continue
		}
		id := o.GetLabels()["applyset.kubernetes.io/part-of"]
		if w.Root.GetKind() == "ResourceGraphDefinition" && o.GetKind() == "Site" {
			w.Instances[w.Root.GetUID()] = append(w.Instances[w.Root.GetUID()], o)
		}
		w.Children[id] = append(w.Children[id], o)
	}
	return w
}

// rewrite replaces the outputs that a golden has; a new one gets all of them.
func rewrite(t *testing.T, path string, archive *txtar.Archive, got map[string]string) {
	t.Helper()
	fresh := true
	for i, f := range archive.Files {
		if text, is := got[f.Name]; is {
			archive.Files[i].Data, fresh = []byte(text), false
		}
	}
	for _, name := range outputs {
		if fresh {
			archive.Files = append(archive.Files, txtar.File{Name: name, Data: []byte(got[name])})
		}
	}
	if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
		t.Fatal(err)
	}
}
