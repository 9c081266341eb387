package schema_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/schema"
)

var update = flag.Bool("update", false, "rewrite what the goldens expect")

// TestParseGoldens reads testdata/parse: spec.yaml and types.yaml are the
// shorthand, schema.yaml and problems what becomes of it.
func TestParseGoldens(t *testing.T) {
	eachGolden(t, "testdata/parse", func(t *testing.T, in map[string]string) map[string]string {
		var spec, types map[string]any
		decode(t, in["spec.yaml"], &spec)
		decode(t, in["types.yaml"], &types)
		s, problems := schema.Parse(spec, "spec.schema.spec", schema.Options{Types: types, TypesPath: "spec.schema.types"})
		if len(problems) > 0 {
			return map[string]string{"problems": problems.Err().Error() + "\n"}
		}
		mustBeServed(t, s)
		return map[string]string{"schema.yaml": encode(t, s)}
	})
}

// TestCompareGoldens reads testdata/compare: old.yaml and new.yaml are the
// shorthand before and after, changes what happened in between.
func TestCompareGoldens(t *testing.T) {
	eachGolden(t, "testdata/compare", func(t *testing.T, in map[string]string) map[string]string {
		old, new := parsed(t, in["old.yaml"]), parsed(t, in["new.yaml"])
		var b strings.Builder
		for _, c := range schema.Compare(old, new, "spec") {
			b.WriteString(c.String() + "\n")
		}
		return map[string]string{"changes": b.String()}
	})
}

// eachGolden runs what over each archive below dir: files with an extension
// other than those it gives back are input.
func eachGolden(t *testing.T, dir string, what func(*testing.T, map[string]string) map[string]string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no goldens in %s: %v", dir, err)
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
			got := what(t, in)
			if *update {
				rewrite(t, path, archive, got)
				return
			}
			for _, name := range []string{"schema.yaml", "problems", "changes"} {
				if diff := cmp.Diff(in[name], got[name]); diff != "" {
					t.Errorf("%s: %s (-want +got):\n%s", path, name, diff)
				}
			}
		})
	}
}

func rewrite(t *testing.T, path string, archive *txtar.Archive, got map[string]string) {
	t.Helper()
	kept := archive.Files[:0]
	for _, f := range archive.Files {
		if f.Name != "schema.yaml" && f.Name != "problems" && f.Name != "changes" {
			kept = append(kept, f)
		}
	}
	for name, data := range got {
		kept = append(kept, txtar.File{Name: name, Data: []byte(data)})
	}
	archive.Files = kept
	if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
		t.Fatal(err)
	}
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

func encode(t *testing.T, v any) string {
	t.Helper()
	b, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
