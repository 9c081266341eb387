package expr

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files")

// TestGolden compiles each template.yaml against the schema of a Deployment, or
// against schema.yaml if there is one, and evaluates it in the world of the
// fixtures with values.yaml on top.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := golden(t, archive)
			if *update {
				if err := os.WriteFile(file, txtar.Format(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(txtar.Format(archive)), string(txtar.Format(got))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func golden(t *testing.T, archive *txtar.Archive) *txtar.Archive {
	in := map[string]string{}
	out := &txtar.Archive{Comment: archive.Comment}
	for _, f := range archive.Files {
		in[f.Name] = string(f.Data)
		if strings.HasSuffix(f.Name, ".yaml") && !strings.HasPrefix(f.Name, "want-") {
			out.Files = append(out.Files, f)
		}
	}
	add := func(name, text string) {
		out.Files = append(out.Files, txtar.File{Name: name, Data: []byte(strings.TrimRight(text, "\n") + "\n")})
	}
	schema := deploymentSchema
	if s, ok := in["schema.yaml"]; ok {
		schema = s
	}
	vars := worldVars(t)
	if values, ok := in["values.yaml"]; ok {
		for name, value := range document(t, values).(map[string]any) {
			vars[name] = value
		}
	}
	template, problems := testEnv(t).Template(document(t, in["template.yaml"]), schemaOf(t, schema), "spec.template")
	if problems != nil {
		var lines []string
		for _, d := range problems {
			lines = append(lines, d.String())
		}
		add("want-diagnostics", strings.Join(lines, "\n"))
		return out
	}
	add("want-refs", strings.Join(texts(template.Refs()), "\n"))
	value, err := template.Render(vars)
	if err != nil {
		add("want-error", err.Error())
		partly, missing := template.RenderPartial(vars, nil)
		add("want-partial.yaml", asYAML(t, partly))
		var lines []string
		for _, m := range missing {
			lines = append(lines, string(m.At)+": "+m.Err.Error())
		}
		add("want-missing", strings.Join(lines, "\n"))
	} else {
		add("want-rendered.yaml", asYAML(t, value))
	}
	checkStructural(t, template.Schema())
	raw, err := json.Marshal(template.Schema())
	if err != nil {
		t.Fatal(err)
	}
	structural, err := yaml.JSONToYAML(raw)
	if err != nil {
		t.Fatal(err)
	}
	add("want-schema.yaml", string(structural))
	return out
}

func asYAML(t *testing.T, v any) string {
	raw, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// checkStructural fails unless the API server would take the schema as a
// kind's status.
func checkStructural(t *testing.T, status *extv1.JSONSchemaProps) {
	t.Helper()
	v1 := extv1.JSONSchemaProps{Type: "object", Properties: map[string]extv1.JSONSchemaProps{"status": *status}}
	var internal apiextensions.JSONSchemaProps
	if err := extv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&v1, &internal, nil); err != nil {
		t.Fatal(err)
	}
	structural, err := structuralschema.NewStructural(&internal)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range structuralschema.ValidateStructural(nil, structural) {
		t.Error(problem)
	}
}
