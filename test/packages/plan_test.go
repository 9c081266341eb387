package packages

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// planned is the composition of the package in a version: the ConfigMap of an instance has the text.
func planned(text string) string {
	return fmt.Sprintf(`apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: planned}
spec:
  compositeTypeRef: {apiVersion: packages.example.org/v1, kind: Planned}
  mode: Pipeline
  pipeline:
  - step: config
    functionRef: {name: function-patch-and-transform}
    input:
      apiVersion: pt.fn.crossplane.io/v1beta1
      kind: Resources
      resources:
      - name: config
        base: {apiVersion: v1, kind: ConfigMap, data: {text: %s}}
        readinessChecks: [{type: None}]
`, text)
}

// TestAPlanOfAPackage shows what another version would change, down to the objects of instances, from its manifest and from a file;
// what the version no longer has is shown too, and nothing is changed.
func TestAPlanOfAPackage(t *testing.T) {
	w := newWorld(t)
	t.Setenv("KUBECONFIG", testkit.Kubeconfig(t, w.config))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	labelled := strings.Replace(definition("Planned"), "{name: planneds.packages.example.org}", "{name: planneds.packages.example.org, labels: {old: label}}", 1)
	w.push(t, "org/planned:v1.0.0", nil, w.meta("Configuration", "planned"), labelled, planned("one"))
	w.push(t, "org/planned:v2.0.0", nil, w.meta("Configuration", "planned"), definition("Planned"), planned("two"))
	w.start(t, w.config)
	w.install(t, "Configuration", "planned", "org/planned:v1.0.0")
	w.Await(t, configurationKind, "", "planned", healthy)
	w.Await(t, definitionKind, "", "planneds.packages.example.org", suite.HasCondition("Established", "True", ""))
	w.instance(t, "Planned", "one")
	config := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	w.AwaitList(t, config, w.namespace, "crossplane.io/composite=one", func(all map[string]*unstructured.Unstructured) error {
		if len(all) != 1 {
			return fmt.Errorf("there are %d", len(all))
		}
		return nil
	})
	before := w.Get(t, definitionKind, "", "planneds.packages.example.org").GetResourceVersion()

	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	manifest := file("package.yaml", fmt.Sprintf("apiVersion: pkg.crossplane.io/v1\nkind: Configuration\nmetadata: {name: planned}\nspec: {package: %s/org/planned:v2.0.0}\n", w.host))
	file("folder/crossplane.yaml", w.meta("Configuration", "planned"))
	file("folder/definition.yaml", definition("Planned"))
	file("folder/composition.yaml", planned("two"))
	local := filepath.Join(dir, "platform.xpkg")
	w.command(t, "xpkg", "build", "-f", filepath.Join(dir, "folder"), "-o", local)
	for name, out := range map[string]string{
		"from its manifest": w.command(t, "plan", "-f", manifest),
		"from a file":       w.command(t, "plan", "-f", local),
	} {
		for _, want := range []string{"CompositeResourceDefinition planneds.packages.example.org", "old", "Composition planned", "ConfigMap", "one", "two"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s, the plan does not have %q:\n%s", name, want, out)
			}
		}
		if strings.Contains(out, "ownerReferences") {
			t.Errorf("%s, the plan has owners:\n%s", name, out)
		}
	}
	if after := w.Get(t, definitionKind, "", "planneds.packages.example.org").GetResourceVersion(); after != before {
		t.Error("the plan has changed the definition")
	}
	wrong := file("wrong.yaml", fmt.Sprintf("apiVersion: pkg.crossplane.io/v1\nkind: Function\nmetadata: {name: planned}\nspec: {package: %s/org/planned:v2.0.0}\n", w.host))
	if out := w.fails(t, "plan", "-f", wrong); !strings.Contains(out, "it is a package of the kind Configuration, not Function") {
		t.Errorf("a package of another kind: %s", out)
	}
	w.Delete(t, instanceKind("Planned"), w.namespace, "one")
}
