package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const brokenDefinition = `apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: web}
spec:
  schema: {apiVersion: v1alpha1, kind: Web, spec: {size: integer}}
  resources:
  - id: config
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "${schema.metadata.name}"}
      data: {size: "${string(schema.spec.sise)}"}
`

// foreignDefinition has an object of a kind that is only known with its CustomResourceDefinition.
const foreignDefinition = `apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: web}
spec:
  schema: {apiVersion: v1alpha1, kind: Web, spec: {size: integer}}
  resources:
  - id: thing
    template:
      apiVersion: example.com/v1
      kind: Thing
      metadata: {name: "${schema.metadata.name}"}
      spec: {size: "${schema.spec.size}"}
`

const thingCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: string}}}}}}
`

func TestValidate(t *testing.T) {
	cases := map[string]struct {
		files     map[string]string
		arguments []string
		code      int
		out, says string
	}{
		"nothing to check":           {nil, nil, exitUsage, "", "validate takes files"},
		"a file that does not exist": {nil, []string{"-f", "no.yaml"}, exitFailed, "", "no.yaml: no such file"},
		"a directory without files":  {nil, []string{"-f", "."}, exitFailed, "", ". has no .yaml, .yml or .json files"},
		"an unknown format":          {map[string]string{"a.yaml": thingCRD}, []string{"-f", ".", "-o", "xml"}, exitUsage, "", "must be one of table, json, yaml"},
		"an error": {
			map[string]string{"sub/a.yaml": brokenDefinition}, []string{"-f", "."}, exitFailed,
			"sub/a.yaml:12:42: error: spec.resources[0].template.data.size: undefined field 'sise' in schema.spec; did you mean \"size\"?\n",
			"1 error and 0 warnings in 1 file",
		},
		"an unknown kind": {
			map[string]string{"a.yaml": foreignDefinition}, []string{"-f", "a.yaml"}, exitDone,
			"a.yaml:10:13: warning: spec.resources[0].template.kind: Thing of example.com/v1 is unknown here, so its fields are not checked; add its CustomResourceDefinition\n",
			"0 errors and 1 warning in 1 file",
		},
		"an unknown kind and an error": {
			map[string]string{"a.yaml": strings.ReplaceAll(foreignDefinition, "schema.spec.size", "schema.spec.sise")}, []string{"-f", "a.yaml"}, exitFailed,
			"a.yaml:10:13: warning: spec.resources[0].template.kind: Thing of example.com/v1 is unknown here, so its fields are not checked; add its CustomResourceDefinition\n" +
				"a.yaml:12:35: error: spec.resources[0].template.spec.size: undefined field 'sise'",
			"1 error and 1 warning in 1 file",
		},
		"an unknown kind, strictly": {map[string]string{"a.yaml": foreignDefinition}, []string{"-f", "a.yaml", "--strict"}, exitFailed, "a.yaml:10:13: warning", "0 errors and 1 warning in 1 file"},
		"a kind of --kinds": {
			map[string]string{"a.yaml": foreignDefinition, "crds/thing.yaml": thingCRD}, []string{"-f", "a.yaml", "--kinds", "crds"}, exitFailed,
			"a.yaml:12:23: error: spec.resources[0].template.spec.size: type mismatch", "1 error and 0 warnings in 1 file",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for path, text := range tc.files {
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var out, errs bytes.Buffer
			if code := Main(t.Context(), append([]string{"validate"}, tc.arguments...), &out, &errs); code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if !strings.HasPrefix(out.String(), tc.out) || tc.out == "" && out.Len() > 0 {
				t.Errorf("printed %q, want %q", out.String(), tc.out)
			}
			if !strings.Contains(errs.String(), tc.says) {
				t.Errorf("says %q, want %q", errs.String(), tc.says)
			}
		})
	}
}

func TestValidatePrintsForPrograms(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(path, []byte(brokenDefinition), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := Main(t.Context(), []string{"validate", "-f", path, "-o", "json"}, &out, &errs); code != exitFailed {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	var findings []printedFinding
	if err := json.Unmarshal(out.Bytes(), &findings); err != nil {
		t.Fatal(err)
	}
	if len(findings) != 1 || findings[0].Line != 12 || findings[0].Severity != "error" || findings[0].Path != "spec.resources[0].template.data.size" {
		t.Errorf("got %+v", findings)
	}
}
