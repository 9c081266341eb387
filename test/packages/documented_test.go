package packages

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/cmd/espalier/cli"
	"github.com/espalier-dev/espalier/internal/testkit"
)

// documented are the blocks of a page in one language, of which each contains a text; the namespace of objects is that of the world.
func (w *world) documented(t *testing.T, page, language, text string) string {
	t.Helper()
	raw, err := os.ReadFile("../../docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(raw), "```"+language+"\n")[1:] {
		if block, _, _ = strings.Cut(block, "```"); strings.Contains(block, text) {
			return strings.ReplaceAll(block, "namespace: default", "namespace: "+w.namespace)
		}
	}
	t.Fatalf("%s has no block of %s with %q", page, language, text)
	return ""
}

// command runs espalier on the cluster of the world, whose reference of the registry is in place of the documented one.
func (w *world) command(t *testing.T, args ...string) string {
	t.Helper()
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "registry.example.org", w.host)
	}
	var out, errs bytes.Buffer
	if code := cli.Main(t.Context(), args, &out, &errs); code != 0 {
		t.Fatalf("espalier %s: exit code %d: %s%s", strings.Join(args, " "), code, out.String(), errs.String())
	}
	return out.String()
}

// fails runs a command that fails, and returns what it says.
func (w *world) fails(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if code := cli.Main(t.Context(), args, &out, &out); code == 0 {
		t.Errorf("espalier %s does not fail", strings.Join(args, " "))
	}
	return out.String()
}

// TestTheDocumentedFunctionIsInstalledFromItsPackage and composes: docs/functions.md, from its program to the ConfigMap.
func TestTheDocumentedFunctionIsInstalledFromItsPackage(t *testing.T) {
	w := newWorld(t)
	t.Setenv("KUBECONFIG", testkit.Kubeconfig(t, w.config))
	dir := t.TempDir()
	file := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	file("main.go", w.documented(t, "functions.md", "go", "function.Main(greet)"))
	file("package/crossplane.yaml", w.documented(t, "functions.md", "yaml", "apiVersion: meta.pkg.crossplane.io/v1"))
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "greet"), filepath.Join(dir, "main.go"))
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	greet := filepath.Join(dir, "greet.xpkg")
	w.start(t, w.config)
	w.command(t, "xpkg", "build", "-f", filepath.Join(dir, "package"), "--embed-runtime-binary", filepath.Join(dir, "greet"), "-o", greet)
	w.command(t, "xpkg", "push", "registry.example.org/example/greet:v1", "-f", greet)
	if out := w.command(t, "xpkg", "install", "function", "registry.example.org/example/greet:v1", "greet", "--wait", "2m"); out != "Function greet is healthy\n" {
		t.Errorf("install says %q", out)
	}
	w.Apply(t, w.documented(t, "functions.md", "yaml", "metadata: {name: greetings.example.org}"))
	w.AwaitReady(t, definitionKind, "", "greetings.example.org")
	w.Apply(t, w.documented(t, "functions.md", "yaml", "spec: {name: Ada}"))
	w.AwaitList(t, schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, w.namespace, "crossplane.io/composite=ada", func(all map[string]*unstructured.Unstructured) error {
		for _, o := range all {
			if text, _, _ := unstructured.NestedString(o.Object, "data", "text"); text == "Hello Ada" {
				return nil
			}
		}
		return os.ErrNotExist
	})

	// A package that is not healthy has its cause on its line.
	w.push(t, "team/platform:v1.0.0", nil, w.meta("Configuration", "platform", "function=team/absent >=1"))
	var errs bytes.Buffer
	if code := cli.Main(t.Context(), []string{"xpkg", "install", "configuration", w.host + "/team/platform:v1.0.0", "--wait", "1s"}, &errs, &errs); code != 4 {
		t.Errorf("a package that is not healthy: exit code %d: %s", code, errs.String())
	}
	w.Await(t, configurationKind, "", "team-platform", hasConditions("Healthy", "False", "missing dependencies"))
	lines := strings.Split(w.command(t, "xpkg", "list"), "\n")
	want := [][]string{{"Configuration", "team-platform", "v1.0.0", "1", "Unhealthy", "missing dependencies"}, {"Function", "greet", "v1", "1", "Healthy"}}
	if len(lines) != 4 {
		t.Fatalf("list says %q", lines)
	}
	for i, cells := range want {
		if got := strings.Fields(lines[i+1]); strings.Join(got[:5], " ") != strings.Join(cells[:5], " ") || len(cells) > 5 && !strings.Contains(lines[i+1], cells[5]) {
			t.Errorf("list says %q, want %q", lines[i+1], cells)
		}
	}
	w.Delete(t, schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Greeting"}, w.namespace, "ada")
}
