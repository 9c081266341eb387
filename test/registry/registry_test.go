// Package registry tests the commands for packages against a registry of another program, Debian's docker-registry, on loopback: what
// they push there is inspected and installed in a cluster.
package registry

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-logr/logr/testr"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/cmd/espalier/cli"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

const (
	metadata   = "apiVersion: meta.pkg.crossplane.io/v1\nkind: Configuration\nmetadata: {name: platform}\nspec: {}\n"
	definition = `apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: shelves.registry.example.org}
spec:
  group: registry.example.org
  names: {kind: Shelf, plural: shelves}
  versions: [{name: v1, served: true, referenceable: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object}}}}}]
`
	configuration = `version: 0.1
log: {level: error, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: %s}}
http: {addr: %s}
`
)

// startRegistry returns the host of a registry. Where its program is not installed, the test is skipped.
func startRegistry(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("docker-registry")
	if err != nil {
		t.Skip("docker-registry is not installed: apt-get install docker-registry")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := listener.Addr().String()
	listener.Close()
	dir := t.TempDir()
	file := write(t, dir, "config.yml", fmt.Sprintf(configuration, filepath.Join(dir, "data"), host))
	var output bytes.Buffer
	registry := exec.Command(program, "serve", file)
	registry.Stdout, registry.Stderr = &output, &output
	registry.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := registry.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = registry.Process.Kill()
		_ = registry.Wait()
		if t.Failed() {
			t.Log("docker-registry:", output.String())
		}
	})
	testkit.Poll(t, "the registry answers", func() bool {
		response, err := http.Get("http://" + host + "/v2/")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return host
}

func write(t *testing.T, dir, name, text string) string {
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

// run runs a command of espalier.
func run(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := cli.Main(t.Context(), args, &out, &errs); code != 0 {
		t.Fatalf("espalier %s: exit code %d: %s%s", strings.Join(args, " "), code, out.String(), errs.String())
	}
	return out.String()
}

// TestAPackageGoesThroughARegistry from its manifests to the definition in the cluster.
func TestAPackageGoesThroughARegistry(t *testing.T) {
	host := startRegistry(t)
	config := testkit.ExclusiveServer(t)
	cluster, namespace, dir := testkit.NewCluster(t, config), testkit.Namespace(t, config), t.TempDir()
	t.Setenv("KUBECONFIG", testkit.Kubeconfig(t, config))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	write(t, dir, "package/crossplane.yaml", metadata)
	write(t, dir, "package/definition.yaml", definition)
	file, reference := filepath.Join(dir, "platform.xpkg"), host+"/team/platform"

	_, digest, _ := strings.Cut(run(t, "xpkg", "build", "-f", filepath.Join(dir, "package"), "-o", file), "sha256:")
	digest, _, _ = strings.Cut(digest, "\n")
	if out := run(t, "xpkg", "push", reference+":v1.0.0", "-f", file); out != reference+":v1.0.0@sha256:"+digest+"\n" {
		t.Errorf("push says %q, and build %q", out, digest)
	}
	if out := run(t, "xpkg", "inspect", reference, "--version", ">=1.0.0"); !strings.Contains(out, digest) || !strings.Contains(out, "shelves.registry.example.org") {
		t.Errorf("inspect says %s", out)
	}
	c := suite.Start(t, server.Options{
		Config: config, Packages: &server.PackageOptions{Namespace: namespace, CacheDir: t.TempDir()}, Log: testr.NewWithOptions(t, testr.Options{}), SigningKeyNamespace: namespace,
	})
	t.Cleanup(func() { _ = c.Stop() })
	if err := c.WaitStarted(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out := run(t, "xpkg", "install", "configuration", reference+":v1.0.0", "platform", "--wait", "2m"); out != "Configuration platform is healthy\n" {
		t.Errorf("install says %q", out)
	}
	cluster.AwaitReady(t, schema.GroupVersionKind{Group: "apiextensions.crossplane.io", Version: "v1", Kind: "CompositeResourceDefinition"}, "", "shelves.registry.example.org")
	if out := run(t, "xpkg", "list"); !strings.Contains(out, "Configuration  platform  v1.0.0   1    Healthy") {
		t.Errorf("list says %q", out)
	}
}
