package image

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

const version = "v0.0.0-test"

// built builds the image for this architecture, and unpacks it.
func built(t *testing.T) (layout ociLayout, image manifest, root string) {
	t.Helper()
	layout = ociLayout(filepath.Join(t.TempDir(), "layout"))
	build := exec.CommandContext(t.Context(), "go", "run", ".", "image", "--platforms=linux/"+runtime.GOARCH, "--output="+string(layout),
		"--version="+version, "--revision=test", "--epoch=1700000000")
	build.Dir = filepath.Join("..", "..", "hack", "release")
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the image: %v\n%s", err, out)
	}
	tagged := layout.index(t).Manifests[0]
	if got := tagged.Annotations["org.opencontainers.image.ref.name"]; got != version {
		t.Errorf("the first manifest of the layout has the tag %q", got)
	}
	var platforms manifest
	layout.read(t, tagged, &platforms)
	if len(platforms.Manifests) != 1 || platforms.Manifests[0].Platform.Architecture != runtime.GOARCH {
		t.Fatalf("the image is for %+v", platforms.Manifests)
	}
	layout.read(t, platforms.Manifests[0], &image)
	root = filepath.Join(t.TempDir(), "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	layout.unpack(t, image, root)
	t.Run("the SBOM", func(t *testing.T) { checkSBOM(t, layout, platforms.Manifests[0].Digest, root) })
	return layout, image, root
}

// checkSBOM checks that the SBOM of an image refers to it, and describes its program.
func checkSBOM(t *testing.T, layout ociLayout, of, root string) {
	others := layout.index(t).Manifests[1:]
	if len(others) != 1 || others[0].ArtifactType != "application/vnd.cyclonedx+json" {
		t.Fatalf("the layout has these manifests beside the image: %+v", others)
	}
	var artifact manifest
	layout.read(t, others[0], &artifact)
	if artifact.Subject == nil || artifact.Subject.Digest != of {
		t.Errorf("the SBOM is of %+v, not of %s", artifact.Subject, of)
	}
	var bom struct {
		BOMFormat, SpecVersion string
		Metadata               struct {
			Component struct {
				Version string
				Hashes  []struct{ Content string }
			}
		}
		Components []struct {
			Name, Version, PURL string
			Licenses            []struct{ License struct{ ID string } }
		}
	}
	layout.read(t, artifact.Layers[0], &bom)
	program, err := os.ReadFile(filepath.Join(root, "espalier"))
	if err != nil {
		t.Fatal(err)
	}
	main := bom.Metadata.Component
	if bom.BOMFormat != "CycloneDX" || main.Version != version || len(main.Hashes) != 1 || main.Hashes[0].Content != fmt.Sprintf("%x", sha256.Sum256(program)) {
		t.Errorf("the SBOM is of another program: %+v", main)
	}
	var names []string
	for _, c := range bom.Components {
		names = append(names, c.Name)
		if c.Version == "" || !strings.HasSuffix(c.PURL, "@"+strings.TrimPrefix(c.Version, "go")) || len(c.Licenses) == 0 {
			t.Errorf("component %s has the version %q, the package URL %q and %d licences", c.Name, c.Version, c.PURL, len(c.Licenses))
		}
	}
	for _, name := range []string{"std", "k8s.io/client-go", "github.com/espalier-dev/espalier/providers/postgresql", "golang.org/x/crypto/x509roots/fallback"} {
		if !slices.Contains(names, name) {
			t.Errorf("the SBOM lacks %s", name)
		}
	}
}

// zone composes a ConfigMap with an hour in a time zone: the image has the database of time zones.
var zone = suite.Graph("Zone", `spec: {at: string}, status: {hour: "${map.data.hour}"}`, `
    - {id: map, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}, data: {hour: "${string(timestamp(schema.spec.at).getHours('Asia/Tokyo'))}"}}}
`)

// children are the permissions on instances and children of the definition.
const children = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: $ID-children}
rules:
  - {apiGroups: [$GROUP], resources: ["*"], verbs: ["*"]}
  - {apiGroups: [""], resources: [configmaps], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: $ID-children}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: $ID-children}
subjects: [{kind: ServiceAccount, namespace: $NS, name: espalier}]
`

const instance = `
apiVersion: $GROUP/v1alpha1
kind: Zone
metadata: {name: x, namespace: $NS}
spec: {at: "2026-01-01T00:00:00Z"}
`

// TestTheImageRunsInAnEmptyRoot builds the image, checks it, and runs it as a pod would be run, with the
// token of a service account that has the permissions which it prints itself.
func TestTheImageRunsInAnEmptyRoot(t *testing.T) {
	testkit.NeedsServer(t)
	layout, image, root := built(t)
	checkFiles(t, root)
	var c configuration
	layout.read(t, image.Config, &c)
	if c.Config.User != user+":"+user || !slices.Equal(c.Config.Entrypoint, []string{"/espalier"}) || !slices.Equal(c.Config.Cmd, []string{"run"}) {
		t.Errorf("the image runs %q %q as %s", c.Config.Entrypoint, c.Config.Cmd, c.Config.User)
	}
	if c.Config.Labels["org.opencontainers.image.version"] != version || c.Config.Labels["org.opencontainers.image.licenses"] != "Apache-2.0" {
		t.Errorf("the image has the labels %v", c.Config.Labels)
	}

	t.Run("its program", func(t *testing.T) { runImage(t, c, root) })
}

// runImage runs the program of an image in its root.
func runImage(t *testing.T, c configuration, root string) {
	if got := output(t, inRoot(root, nil, "/espalier", "version")); !strings.HasPrefix(got, "espalier "+version+" ") {
		t.Errorf("the version is %q", got)
	}
	s := newSuite(t)
	// The directories that the kubelet mounts exist before the root is read-only.
	environment := mountServiceAccount(t, s, root)
	kubeconfig, err := os.ReadFile(testkit.Kubeconfig(t, s.Config))
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(root, "kubeconfig"), kubeconfig)

	s.Apply(t, output(t, inRoot(root, nil, "/espalier", "rbac", "--kubeconfig=/kubeconfig", "--controllers", "--serviceaccount="+s.NS+":espalier")))
	s.Apply(t, children)
	if err := os.Remove(filepath.Join(root, "kubeconfig")); err != nil {
		t.Fatal(err)
	}

	probes, metrics := free(t), free(t)
	run := inRoot(root, environment, append(append(c.Config.Entrypoint, c.Config.Cmd...), "--health-probe-bind-address="+probes, "--metrics-bind-address="+metrics)...)
	stop := start(t, run)
	testkit.Poll(t, "the probe of the program answers that it is ready", func() bool { return get("http://"+probes+"/readyz") == http.StatusOK })
	s.Apply(t, zone)
	s.AwaitDefinitions(t, "zone")
	s.Apply(t, instance)
	s.Await(t, s.Kind("Zone"), s.NS, "x", suite.HasField("9", "status", "hour"))
	if code := get("http://" + metrics + "/metrics"); code != http.StatusOK {
		t.Errorf("the metrics answer %d", code)
	}
	stop()
}

// checkFiles checks that the image has no other files than it should, that its program is static, and
// that its certificate authorities can be read.
func checkFiles(t *testing.T, root string) {
	t.Helper()
	var names []string
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, strings.TrimPrefix(path, root))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"/LICENSE", "/THIRD_PARTY_LICENSES", "/espalier", "/etc/group", "/etc/passwd", "/etc/ssl/certs/ca-certificates.crt"}; !slices.Equal(names, want) {
		t.Errorf("the image has the files %q, not %q", names, want)
	}
	program, err := elf.Open(filepath.Join(root, "espalier"))
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	if slices.ContainsFunc(program.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Error("the program is not static: it names a dynamic linker")
	}
	roots, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"))
	if err != nil {
		t.Fatal(err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(roots) || bytes.Count(roots, []byte("BEGIN CERTIFICATE")) < 100 {
		t.Error("the image has no certificate authorities")
	}
}

func newSuite(t *testing.T) suite.Suite {
	t.Helper()
	config := testkit.ExclusiveServer(t)
	return suite.Suite{Cluster: testkit.NewCluster(t, config), Config: config, Group: testkit.Group(t), NS: testkit.Namespace(t, config)}
}

// mountServiceAccount writes what the kubelet mounts into a pod to connect to the API server, and returns
// the variables that it sets.
func mountServiceAccount(t *testing.T, s suite.Suite, root string) []string {
	t.Helper()
	s.Apply(t, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: espalier, namespace: $NS}\n")
	token, err := kubernetes.NewForConfigOrDie(s.Config).CoreV1().ServiceAccounts(s.NS).
		CreateToken(t.Context(), "espalier", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(s.Config)
	if err := rest.LoadTLSFiles(config); err != nil {
		t.Fatal(err)
	}
	directory := filepath.Join(root, "var/run/secrets/kubernetes.io/serviceaccount")
	if err := os.MkdirAll(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"token": []byte(token.Status.Token), "ca.crt": config.CAData, "namespace": []byte(s.NS)} {
		writeFile(t, filepath.Join(directory, name), content)
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	return []string{"KUBERNETES_SERVICE_HOST=" + server.Hostname(), "KUBERNETES_SERVICE_PORT=" + server.Port()}
}

func writeFile(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o444); err != nil {
		t.Fatal(err)
	}
}

// output runs a command in a root, and returns what it prints. It skips the test if this machine does
// not allow to change the root.
func output(t *testing.T, command *exec.Cmd) string {
	t.Helper()
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	err := command.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == exitForbidden {
		t.Skipf("this machine does not allow to run a program in a root of its own: %s", errs.String())
	}
	if err != nil {
		t.Fatalf("%q: %v\n%s", command.Args[1:], err, errs.String())
	}
	return out.String()
}

// start starts the program, and returns a function that stops it with the signal of the kubelet.
func start(t *testing.T, command *exec.Cmd) (stop func()) {
	t.Helper()
	var log bytes.Buffer
	command.Stdout, command.Stderr = &log, &log
	// The kernel kills the program with the thread that started it.
	runtime.LockOSThread()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	stop = func() {
		once.Do(func() {
			_ = command.Process.Signal(syscall.SIGTERM) // an error means that it has exited
			err := command.Wait()
			runtime.UnlockOSThread()
			if err != nil {
				t.Errorf("the program ends with %v", err)
			}
			if t.Failed() {
				t.Logf("the log of the program:\n%s", log.String())
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

// free is an address of this machine without a listener.
func free(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// get returns the code of the answer, or 0 if there is none.
func get(url string) int {
	client := http.Client{Timeout: 5 * time.Second}
	answer, err := client.Get(url)
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body) // only the code is of interest
	return answer.StatusCode
}
