package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSchema(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	invalid := filepath.Join(t.TempDir(), "web.yaml")
	if err := os.WriteFile(invalid, []byte(strings.Replace(brokenDefinition, "size: integer", "size: intege", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	vpc := []string{"-f", exampleFiles + "eks-with-vpc/1-vpc.yaml"}
	cases := map[string]struct {
		arguments []string
		code      int
		// kind is the const of the kind's field, and says what is printed as an error.
		kind, says string
	}{
		"a definition":                        {[]string{"rgd"}, exitDone, "ResourceGraphDefinition", ""},
		"of the other dialect":                {[]string{"xrd"}, exitDone, "CompositeResourceDefinition", ""},
		"a kind of a file":                    {append(vpc, "Vpc"), exitDone, "Vpc", ""},
		"a kind of Kubernetes":                {[]string{"deployments.apps"}, exitDone, "Deployment", ""},
		"one in the core group":               {[]string{"event"}, exitDone, "Event", ""},
		"an unknown kind, without a cluster":  {[]string{"gadget"}, exitFailed, "", "have a kind gadget, and no cluster is known"},
		"a kind with an invalid schema":       {[]string{"-f", invalid, "web"}, exitFailed, "", "web.yaml:5:"},
		"no kind":                             {nil, exitUsage, "", "--output-dir"},
		"a kind of which there are several":   {[]string{"events"}, exitDone, "Event", ""},
		"several without a preferred one":     {[]string{"ingressclass", "rgd"}, exitUsage, "", "--output-dir takes several"},
		"a file that is not there":            {[]string{"-f", "nowhere.yaml", "rgd"}, exitFailed, "", "nowhere.yaml"},
		"a version of a kind, with its group": {[]string{"horizontalpodautoscaler.v1.autoscaling"}, exitDone, "HorizontalPodAutoscaler", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			code, out, errs := call(t.Context(), append([]string{"schema"}, tc.arguments...)...)
			if code != tc.code || !strings.Contains(errs, tc.says) {
				t.Fatalf("exit code %d: %s", code, errs)
			}
			if tc.kind == "" {
				return
			}
			var schema struct {
				Properties struct {
					Kind struct {
						Const string `json:"const"`
					} `json:"kind"`
					Metadata struct {
						Properties map[string]any `json:"properties"`
					} `json:"metadata"`
				} `json:"properties"`
			}
			if err := json.Unmarshal([]byte(out), &schema); err != nil {
				t.Fatal(err)
			}
			if schema.Properties.Kind.Const != tc.kind || schema.Properties.Metadata.Properties["labels"] == nil {
				t.Errorf("the schema is of %q; metadata has %d fields", schema.Properties.Kind.Const, len(schema.Properties.Metadata.Properties))
			}
		})
	}
	t.Run("files for other programs", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "schemas")
		code, out, errs := call(t.Context(), append([]string{"schema", "--output-dir", dir}, vpc...)...)
		if code != exitDone {
			t.Fatalf("exit code %d: %s", code, errs)
		}
		for _, name := range []string{"kro.run/vpc_v1alpha1.json", "kro.run/resourcegraphdefinition_v1alpha1.json", "apiextensions.crossplane.io/composition_v1.json"} {
			path := filepath.Join(dir, name)
			if _, err := os.Stat(path); err != nil || !strings.Contains(out, path) {
				t.Errorf("%v; it prints %s", err, out)
			}
		}
	})
	t.Run("files with errors", func(t *testing.T) {
		code, out, errs := call(t.Context(), append([]string{"schema", "--output-dir", filepath.Join(t.TempDir(), "schemas"), "-f", invalid}, vpc...)...)
		if code != exitFailed || !strings.Contains(out, "vpc_v1alpha1.json") || strings.Contains(out, "web_v1alpha1.json") || !strings.Contains(errs, "have no schema:\n"+invalid+":") {
			t.Errorf("exit code %d; it prints %s and %s", code, out, errs)
		}
	})
}
