package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/cmd/espalier/chart"
)

// printed returns the objects that install prints.
func printed(t *testing.T, args ...string) (out []*unstructured.Unstructured) {
	t.Helper()
	code, text, errs := call(t.Context(), append([]string{"install"}, args...)...)
	if code != exitDone || errs != "" {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	for document := range strings.SplitSeq(text, "\n---\n") {
		raw, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			t.Fatal(err)
		}
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(raw); err != nil {
			t.Fatal(err)
		}
		out = append(out, o)
	}
	return out
}

// TestInstallPrintsTheChart compares what install prints with what Helm's library renders: only the
// namespace and the name of the tool differ.
func TestInstallPrintsTheChart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte("replicas: 5\ncontrollers: {workers: 8}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	want, err := chart.Render(chart.Options{Namespace: "platform", Set: []string{"replicas=3", "controllers.workers=8", "image.repository=registry.example.com:5000/espalier", "image.tag=1.2.3"}})
	if err != nil {
		t.Fatal(err)
	}
	got := printed(t, "--namespace", "platform", "--values", file, "--set", "replicas=3", "--image", "registry.example.com:5000/espalier:1.2.3")
	if got[0].GetKind() != "Namespace" || got[0].GetName() != "platform" {
		t.Errorf("the first object is %s %s", got[0].GetKind(), got[0].GetName())
	}
	texts := func(all []*unstructured.Unstructured) (out []string) {
		for _, o := range all {
			raw, err := yaml.Marshal(o.Object)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, strings.ReplaceAll(string(raw), "app.kubernetes.io/managed-by: espalier", "app.kubernetes.io/managed-by: Helm"))
		}
		return out
	}
	if diff := cmp.Diff(texts(want), texts(got[1:])); diff != "" {
		t.Error(diff)
	}
}

func TestImages(t *testing.T) {
	cases := map[string]struct {
		image, want string
		fails       bool
	}{
		"A name":                   {"espalier", `{"image":{"repository":"espalier"}}`, false},
		"A numeric tag":            {"espalier:1", `{"image":{"repository":"espalier","tag":"1"}}`, false},
		"A registry with a port":   {"registry:5000/espalier", `{"image":{"repository":"registry:5000/espalier"}}`, false},
		"A registry and a tag":     {"registry:5000/espalier:1", `{"image":{"repository":"registry:5000/espalier","tag":"1"}}`, false},
		"A digest":                 {"registry/espalier@sha256:00", `{"image":{"digest":"sha256:00","repository":"registry/espalier"}}`, false},
		"Several values in a name": {"espalier,replicas=3", "", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := imageValues(tc.image)
			if string(got) != tc.want || (err != nil) != tc.fails {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
	for _, image := range []string{"espalier:1", "espalier:1.10", "espalier:true"} {
		if _, text, errs := call(t.Context(), "install", "--image", image); !strings.Contains(strings.ReplaceAll(text, `"`, ""), "image: "+image+"\n") {
			t.Errorf("no container has the image %s: %s", image, errs)
		}
	}
}

func TestInstallArguments(t *testing.T) {
	cases := map[string]struct {
		arguments []string
		says      string
	}{
		"An argument":        {[]string{"install", "now"}, "install takes no arguments"},
		"No image":           {[]string{"install"}, "with --image REGISTRY/espalier:TAG"},
		"An unknown value":   {[]string{"install", "--set", "replicaCount=3"}, "'replicaCount' not allowed"},
		"A broken setting":   {[]string{"install", "--set", "replicas"}, "setting replicas"},
		"A release, unasked": {[]string{"uninstall", "--release-finalizers"}, "requires --yes"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			code, _, errs := call(t.Context(), tc.arguments...)
			if code != exitUsage || !strings.Contains(errs, tc.says) {
				t.Errorf("exit code %d: %s", code, errs)
			}
		})
	}
}
