package schema_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph/schema"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// TestParseGoldens reads testdata/parse: spec.yaml and types.yaml are the
// SimpleSchema, want-schema.yaml or want-problems what becomes of it.
func TestParseGoldens(t *testing.T) {
	golden.Run(t, "testdata/parse/*.txtar", func(t *testing.T, a *golden.Archive) {
		var spec, types map[string]any
		decode(t, a.Input["spec.yaml"], &spec)
		decode(t, a.Input["types.yaml"], &types)
		var ignored diag.List
		s, problems := schema.Parse(spec, "spec.schema.spec", schema.Options{Types: types, TypesPath: "spec.schema.types", Ignored: &ignored})
		if len(problems) > 0 {
			a.Record("problems", problems.Err().Error())
			return
		}
		mustBeServed(t, s)
		a.Record("schema.yaml", golden.YAML(t, s))
		if len(ignored) > 0 {
			a.Record("ignored", ignored.Err().Error())
		}
	})
}

// TestCompareGoldens reads testdata/compare: old.yaml and new.yaml are the
// SimpleSchema before and after, want-changes what happened in between.
func TestCompareGoldens(t *testing.T) {
	golden.Run(t, "testdata/compare/*.txtar", func(t *testing.T, a *golden.Archive) {
		before, after := parsed(t, a.Input["old.yaml"]), parsed(t, a.Input["new.yaml"])
		var b strings.Builder
		for _, c := range schema.Compare(before, after, "spec") {
			b.WriteString(c.String() + "\n")
		}
		a.Record("changes", b.String())
	})
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}
