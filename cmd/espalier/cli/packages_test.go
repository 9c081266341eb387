package cli

import (
	"io"
	"log"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/espalier-dev/espalier/internal/composition/packages/local"
)

const greeting = `apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: greetings.example.org}
spec:
  group: example.org
  names: {kind: Greeting, plural: greetings}
  versions:
  - name: v1
    served: true
    referenceable: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {name: {type: string}}}}}}
---
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: greeting}
spec:
  compositeTypeRef: {apiVersion: example.org/v1, kind: Greeting}
  mode: Pipeline
  pipeline:
  - {step: config, functionRef: {name: greet}}
---
apiVersion: example.org/v1
kind: Greeting
metadata: {name: ada, namespace: default}
spec: {name: Ada}
`

const greetFunction = "apiVersion: pkg.crossplane.io/v1\nkind: Function\nmetadata: {name: greet}\nspec: {package: %IMAGE%}\n"

// builtGreet is the program of the function.
func builtGreet(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "greet")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./testdata/greet")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// packagedGreet builds the function and pushes it to a registry of the test. It returns the folder with the composition
// and the Function, the reference, and a function that stops the registry.
func packagedGreet(t *testing.T) (dir, reference string, stop func()) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux runs images")
	}
	if m := local.ThisMachine(); m.NoChroot != "" && m.NoNamespaces != "" {
		t.Logf("the program will not be confined: %s; %s", m.NoChroot, m.NoNamespaces)
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	p := packageFolder{dir: t.TempDir()}
	program := builtGreet(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // not before the build, which has its cache there too
	p.file(t, "package/crossplane.yaml", "apiVersion: meta.pkg.crossplane.io/v1\nkind: Function\nmetadata: {name: greet}\nspec: {}\n")
	reference = strings.TrimPrefix(server.URL, "http://") + "/example/greet:v1"
	must(t, "xpkg", "build", "-f", p.path("package"), "--embed-runtime-binary", program, "-o", p.path("greet.xpkg"))
	must(t, "xpkg", "push", reference, "-f", p.path("greet.xpkg"))
	p.file(t, "files/greeting.yaml", greeting)
	p.file(t, "files/function.yaml", strings.ReplaceAll(greetFunction, "%IMAGE%", reference))
	return p.path("files"), reference, server.Close
}

// TestRenderRunsThePackageOfAFunction from a registry, and later without it.
func TestRenderRunsThePackageOfAFunction(t *testing.T) {
	dir, reference, stop := packagedGreet(t)
	outside := filepath.Join(dir, "function.yaml")
	for _, registry := range []string{"running", "stopped"} {
		code, out, errs := call(t.Context(), "render", "-f", dir, "--function-env", "OUTSIDE="+outside)
		if code != exitDone || !strings.Contains(out, "text: Hello Ada") {
			t.Fatalf("with the registry %s: exit code %d: %s%s", registry, code, out, errs)
		}
		if m := local.ThisMachine(); (m.NoChroot == "" || m.NoNamespaces == "") && !strings.Contains(out, `confined: "yes"`) && !strings.Contains(out, "confined: yes") {
			t.Errorf("it reads files of this machine: %s", out)
		}
		for _, want := range []string{"greet | fetching " + reference, "greet | running /runtime of sha256:"} {
			if !strings.Contains(errs, want) {
				t.Errorf("want %q, got %q", want, errs)
			}
		}
		stop()
	}
	code, out, errs := call(t.Context(), "render", "-f", dir, "--run-packages=false")
	if code != exitFailed || !strings.Contains(errs, "no package manager runs its package "+reference) || strings.Contains(errs, "fetching") {
		t.Errorf("switched off, it is run: %d: %s%s", code, out, errs)
	}
	if err := os.WriteFile(filepath.Join(dir, "function.yaml"), []byte(strings.ReplaceAll(greetFunction, "%IMAGE%", reference+"2")), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs = call(t.Context(), "render", "-f", dir)
	if code != exitFailed || !strings.Contains(errs, "greet") || !strings.Contains(errs, reference+"2") {
		t.Errorf("want the package that cannot be fetched named, got %d: %s", code, errs)
	}
}

// TestTestsRunThePackageOfAFunction once for all tests.
func TestTestsRunThePackageOfAFunction(t *testing.T) {
	dir, _, _ := packagedGreet(t)
	for _, name := range []string{"a", "b"} {
		test := "apiVersion: test.espalier.dev/v1alpha1\nkind: Test\nmetadata: {name: " + name + "}\nfiles: [greeting.yaml, function.yaml]\nsteps:\n" +
			"- expect:\n  - apiVersion: v1\n    kind: ConfigMap\n    metadata: {name: greeting}\n    data: {text: Hello Ada}\n"
		if err := os.WriteFile(filepath.Join(dir, name+".test.yaml"), []byte(test), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, out, errs := call(t.Context(), "test", dir)
	if code != exitDone || strings.Count(errs, "greet | running") != 1 {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
}

// TestRunDoesNotRunPackages beside the controllers of a cluster.
func TestRunDoesNotRunPackages(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	text := "apiVersion: config.espalier.dev/v1alpha1\nkind: ControllerConfiguration\nfunctions: {runPackages: true}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs := call(t.Context(), "run", "--config", file)
	if code != exitUsage || !strings.Contains(errs, "functions.runPackages does not apply to 'espalier run'") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// TestAFunctionElsewhereIsCalledWithTheDocumentedCertificates makes them with the commands of docs/functions.md.
func TestAFunctionElsewhereIsCalledWithTheDocumentedCertificates(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("the page's commands run openssl, which is not installed")
	}
	page, err := os.ReadFile("../../../docs/functions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, commands, _ := strings.Cut(string(page), "```sh\nopenssl ")
	commands, _, found := strings.Cut(commands, "```")
	if !found {
		t.Fatal("the page has no commands with openssl")
	}
	program := builtGreet(t)
	p := packageFolder{dir: t.TempDir()}
	certificates := exec.CommandContext(t.Context(), "sh", "-ec", "openssl "+commands)
	certificates.Dir = p.dir
	if out, err := certificates.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	listener.Close()
	function := exec.CommandContext(t.Context(), program, "--address=127.0.0.1:"+port)
	function.Env = []string{"TLS_SERVER_CERTS_DIR=" + p.path("greet")}
	if err := function.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = function.Process.Kill()
		_ = function.Wait()
	}()
	awaitListening(t, "127.0.0.1:"+port)
	file := p.file(t, "greeting.yaml", greeting)
	code, out, errs := call(t.Context(), "render", "-f", file, "--function", "greet=grpcs://localhost:"+port, "--function-certs", p.path("espalier"))
	if code != exitDone || !strings.Contains(out, "text: Hello Ada") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	code, _, errs = call(t.Context(), "render", "-f", file, "--function", "greet=grpcs://127.0.0.1:"+port, "--function-certs", p.path("espalier"))
	if code != exitFailed || !strings.Contains(errs, "certificate") {
		t.Errorf("it is called by a name that its certificate lacks: %d: %s", code, errs)
	}
}

func awaitListening(t *testing.T, address string) {
	t.Helper()
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	late := time.After(30 * time.Second)
	for {
		if connection, err := net.Dial("tcp", address); err == nil {
			connection.Close()
			return
		}
		select {
		case <-retry.C:
		case <-late:
			t.Fatalf("nothing listens on %s", address)
		}
	}
}
