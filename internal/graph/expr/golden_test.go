package expr

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// TestGolden compiles each template.yaml against the schema of a Deployment, or
// against schema.yaml if there is one, and evaluates it in the world of the
// fixtures with values.yaml on top.
func TestGolden(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", render)
}

func render(t *testing.T, a *golden.Archive) {
	schema := deploymentSchema
	if s, ok := a.Input["schema.yaml"]; ok {
		schema = s
	}
	vars := worldVars(t)
	if values, ok := a.Input["values.yaml"]; ok {
		for name, value := range document(t, values).(map[string]any) {
			vars[name] = value
		}
	}
	template, problems := testEnv(t).Template(document(t, a.Input["template.yaml"]), schemaOf(t, schema), "spec.template")
	if problems != nil {
		var lines []string
		for _, d := range problems {
			lines = append(lines, d.String())
		}
		a.Record("diagnostics", strings.Join(lines, "\n"))
		return
	}
	a.Record("refs", strings.Join(texts(template.Refs()), "\n"))
	value, err := template.Render(vars)
	if err != nil {
		a.Record("error", err.Error())
		partly, missing := template.RenderPartial(nil, vars, nil)
		a.Record("partial.yaml", golden.YAML(t, partly))
		var lines []string
		for _, m := range missing {
			lines = append(lines, string(m.At)+": "+m.Err.Error())
		}
		a.Record("missing", strings.Join(lines, "\n"))
	} else {
		a.Record("rendered.yaml", golden.YAML(t, value))
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
	a.Record("schema.yaml", string(structural))
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
