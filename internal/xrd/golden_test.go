package xrd_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/xrd"
)

var update = flag.Bool("update", false, "rewrite what the goldens expect")

// TestGoldens reads testdata: definition.yaml is a definition as its author writes it;
// composite.yaml and claim.yaml are its kinds, problems what keeps them from being
// served, and notes what they will not have.
func TestGoldens(t *testing.T) {
	paths, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no goldens: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			files := map[string]string{}
			for _, f := range archive.Files {
				files[f.Name] = string(f.Data)
			}
			got := made(t, definition(t, files["definition.yaml"]))
			if *update {
				rewrite(t, path, archive, files["definition.yaml"], got)
				return
			}
			for _, name := range products {
				if diff := cmp.Diff(files[name], got[name]); diff != "" {
					t.Errorf("%s: %s (-want +got):\n%s", path, name, diff)
				}
			}
		})
	}
}

var products = []string{"composite.yaml", "claim.yaml", "problems", "notes"}

// made is all that a definition becomes.
func made(t *testing.T, d *v1.CompositeResourceDefinition) map[string]string {
	t.Helper()
	out := map[string]string{"notes": lines(xrd.Notes(d))}
	composite, problems := xrd.Composite(d, xrd.Options{})
	claim, again := xrd.Claim(d, xrd.Options{})
	if diff := cmp.Diff(problems, again); diff != "" {
		t.Errorf("the kinds of one definition have different problems: %s", diff)
	}
	out["problems"] = lines(problems)
	out["composite.yaml"], out["claim.yaml"] = encoded(t, composite), encoded(t, claim)
	return out
}

func lines(l diag.List) string {
	if err := l.Err(); err != nil {
		return err.Error() + "\n"
	}
	return ""
}

func encoded(t *testing.T, c *extv1.CustomResourceDefinition) string {
	t.Helper()
	if c == nil {
		return ""
	}
	raw, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(string(raw), "status:\n  acceptedNames:") // nothing that is asked for
	return text
}

// definition reads a definition as it is written, with a UID as if it had been stored.
func definition(t *testing.T, text string) *v1.CompositeResourceDefinition {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	u.SetUID("d-1")
	d, err := xrd.Read(u)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func rewrite(t *testing.T, path string, archive *txtar.Archive, in string, got map[string]string) {
	t.Helper()
	archive.Files = []txtar.File{{Name: "definition.yaml", Data: []byte(in)}}
	for _, name := range products {
		if got[name] != "" {
			archive.Files = append(archive.Files, txtar.File{Name: name, Data: []byte(got[name])})
		}
	}
	if err := os.WriteFile(path, txtar.Format(archive), 0o600); err != nil {
		t.Fatal(err)
	}
}
