// Package program installs the rendered chart on a real API server, and runs the program with the
// arguments of its Deployment, as its service account and with its permissions only.
package program

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/cmd/espalier/chart"
	"github.com/espalier-dev/espalier/cmd/espalier/cli"
	_ "github.com/espalier-dev/espalier/cmd/espalier/withaws" // for the provider of AWS, in this process
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

// release is an installation of the chart.
type release struct {
	suite.Suite
	objects []*unstructured.Unstructured
	scraper string // the token of what reads the metrics
	mounted string // the directory with the certificate of the webhook, if it is mounted
	page    string // the address of the page, if it is served

	mu      sync.Mutex
	refused []string
}

func newRelease(t *testing.T, settings ...string) *release {
	t.Helper()
	r := connect(t)
	r.install(t, settings...)
	return r
}

func connect(t *testing.T) *release {
	t.Helper()
	config := testkit.ExclusiveServer(t)
	r := &release{Suite: suite.Suite{Cluster: testkit.NewCluster(t, config), Config: config, Group: testkit.Group(t), NS: testkit.Namespace(t, config)}}
	r.FreeLeases(t)
	return r
}

// install installs or upgrades the release.
func (r *release) install(t *testing.T, settings ...string) {
	t.Helper()
	var err error
	if r.objects, err = chart.Render(chart.Options{Namespace: r.NS, Set: append([]string{"image.repository=espalier"}, settings...)}); err != nil {
		t.Fatal(err)
	}
	for _, o := range r.objects {
		if o.GroupVersionKind().Group == "cert-manager.io" {
			continue // it does not run here
		}
		if _, err := r.TryApply(t, o); err != nil {
			t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
	suite.AwaitAggregated(t, r.Config)
}

// configuration returns a file with the configuration of a Deployment.
func (r *release) configuration(t *testing.T, deployment string) string {
	t.Helper()
	i := slices.IndexFunc(r.objects, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "ConfigMap" && o.GetName() == deployment
	})
	text, _, _ := unstructured.NestedString(r.objects[i].Object, "data", "config.yaml")
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "/certificates/webhook", r.mounted)), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// start runs the Deployment of the given name, as far as it is possible outside of a pod, until stop
// is called. It returns the address of its metrics.
func (r *release) start(t *testing.T, deployment string) (metrics string, stop func()) {
	t.Helper()
	i := slices.IndexFunc(r.objects, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "Deployment" && o.GetName() == deployment
	})
	pod, _, _ := unstructured.NestedMap(r.objects[i].Object, "spec", "template", "spec")
	account, _, _ := unstructured.NestedString(pod, "serviceAccountName")
	containers, _, _ := unstructured.NestedSlice(pod, "containers")
	args, _, _ := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	serves := slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--webhook-service=") })
	args = slices.DeleteFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--webhook-service=") })
	metrics, health := free(t), free(t)
	args = append(args, "--kubeconfig="+r.kubeconfig(t, account), "--health-probe-bind-address="+health, "--metrics-bind-address="+metrics)
	r.page = ""
	if slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--ui-bind-address=") }) {
		r.page = free(t)
		args = append(args, "--ui-bind-address="+r.page)
	}
	for i, arg := range args {
		if strings.HasPrefix(arg, "--config=") {
			args[i] = "--config=" + r.configuration(t, deployment)
		}
	}
	if serves {
		args = append(args, "--webhook-bind-address=127.0.0.1:0", "--webhook-url=https://127.0.0.1")
	}
	program, isProvider := strings.CutPrefix(deployment, "espalier-provider-")
	if !isProvider {
		program = "espalier" // also of a shard
	}
	works := regexp.MustCompile(`(?m)^leader_election_master_status\{name="` + program + `\.espalier\.dev(-[0-9a-z]+)?"\} 1`)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan string, 1)
	log := &lines{}
	go func() {
		code := cli.Main(ctx, args, io.Discard, log)
		ended <- fmt.Sprintf("exit code %d", code)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if end := <-ended; end != "exit code 0" {
			t.Errorf("%s: %s\n%s", deployment, end, log)
		}
	})
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("%s:\n%s", deployment, log)
		}
	})
	testkit.PollFor(t, testkit.Timeout/4, deployment+" runs", func() bool {
		select {
		case end := <-ended:
			ended <- end
			t.Fatalf("%s: %s\n%s", deployment, end, log)
		default:
		}
		return works.MatchString(r.metrics(t, metrics)) &&
			get(t, "http://"+health+"/readyz", "") == "ok"
	})
	return metrics, stop
}

// kubeconfig is one for a service account. The requests that the API server forbids the account are
// recorded, but not those that it makes for another one.
func (r *release) kubeconfig(t *testing.T, account string) string {
	t.Helper()
	as := rest.AnonymousClientConfig(r.Config)
	as.BearerToken = r.token(t, account)
	transport, err := rest.TransportFor(as)
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(r.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.Transport, proxy.FlushInterval = transport, -1
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	proxy.ModifyResponse = func(answer *http.Response) error {
		request := answer.Request
		ofOthers := strings.Contains(request.URL.Path, ".example.com/") && !strings.Contains(request.URL.Path, r.Group)
		if answer.StatusCode == http.StatusForbidden && request.Header.Get("Impersonate-User") == "" && !ofOthers {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.refused = append(r.refused, request.Method+" "+request.URL.Path+" "+request.URL.RawQuery)
		}
		return nil
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.CloseClientConnections)
	return testkit.Kubeconfig(t, &rest.Config{Host: server.URL})
}

func (r *release) token(t *testing.T, account string) string {
	t.Helper()
	token, err := kubernetes.NewForConfigOrDie(r.Config).CoreV1().ServiceAccounts(r.NS).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return token.Status.Token
}

// nothingRefused checks that the program was allowed all that it tried since the last check.
func (r *release) nothingRefused(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.refused)
	for _, request := range slices.Compact(r.refused) {
		t.Errorf("the rendered roles do not allow: %s", request)
	}
	r.refused = nil
}

func (r *release) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused = nil
}

// permit applies what 'espalier rbac' prints for a definition.
func (r *release) permit(t *testing.T, definition string, flags ...string) {
	t.Helper()
	var out, errs bytes.Buffer
	if code := cli.Main(t.Context(), append([]string{"rbac", "--kubeconfig", testkit.Kubeconfig(t, r.Config), definition}, flags...), &out, &errs); code != 0 || errs.Len() > 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	r.Apply(t, out.String())
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

// metrics reads the metrics as a service account with the rendered ClusterRole for that.
func (r *release) metrics(t *testing.T, address string) string {
	t.Helper()
	if r.scraper == "" {
		r.Apply(t, `
apiVersion: v1
kind: ServiceAccount
metadata: {name: prometheus, namespace: $NS}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: $ID-prometheus}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: espalier-metrics-reader}
subjects: [{kind: ServiceAccount, namespace: $NS, name: prometheus}]
`)
		r.scraper = r.token(t, "prometheus")
	}
	return get(t, "https://"+address+"/metrics", r.scraper)
}

// get returns the body of a successful response; empty if there is none.
func get(t *testing.T, from, token string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, from, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true} //nolint:gosec // the certificate is self-signed
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return ""
	}
	body, _ := io.ReadAll(answer.Body)
	return string(body)
}

// lines are what the program logs.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// blog is a definition with a service account, which it creates.
const blog = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: builder, namespace: $NS}
---
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-blog}
spec:
  serviceAccount: {namespace: $NS, name: builder}
  schema: {apiVersion: v1alpha1, group: $GROUP, kind: Blog, spec: {text: string}, status: {text: "${page.data.text}"}}
  resources:
    - {id: page, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-blog"}, data: {text: "${schema.spec.text}"}}}
`

// things are composites.
const things = `
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: things.$GROUP}
spec:
  group: $GROUP
  names: {kind: Thing, plural: things}
  versions: [{name: v1, served: true, referenceable: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object}}}}}]
---
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: $ID-things}
spec:
  compositeTypeRef: {apiVersion: $GROUP/v1, kind: Thing}
  mode: Pipeline
  pipeline:
    - step: one
      functionRef: {name: function-patch-and-transform}
      input:
        apiVersion: pt.fn.crossplane.io/v1beta1
        kind: Resources
        resources: [{name: map, readinessChecks: [{type: None}], base: {apiVersion: v1, kind: ConfigMap, metadata: {name: $ID-thing, namespace: $NS}, data: {a: b}}}]
`

const instance = `
apiVersion: $GROUP/v1alpha1
kind: Blog
metadata: {name: x, namespace: $NS}
spec: {text: %s}
`

func says(want string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("does not exist")
		}
		if got, _, _ := unstructured.NestedString(o.Object, "status", "text"); got != want {
			return fmt.Errorf("it says %q: %s", got, testkit.ConditionMessage(o, "Ready"))
		}
		return testkit.IsReady(o)
	}
}

// TestTheControllersRunAsTheRenderedAccount installs the chart, creates a definition with an instance
// and a composite, upgrades the release, and deletes everything. No request of the program is forbidden.
func TestTheControllersRunAsTheRenderedAccount(t *testing.T) {
	r := newRelease(t)
	metrics, stop := r.start(t, "espalier")
	r.nothingRefused(t)

	t.Log("a definition that names a service account")
	r.Apply(t, blog)
	r.Await(t, suite.RGD, "", r.Name("blog"), func(o *unstructured.Unstructured) error {
		if got := testkit.ConditionMessage(o, "PermissionsGranted"); !strings.Contains(got, "lack: ") {
			return fmt.Errorf("PermissionsGranted says %q", got)
		}
		return nil
	})
	r.permit(t, r.Name("blog"))
	r.AwaitReady(t, suite.RGD, "", r.Name("blog"))
	r.forget() // what was tried before the permissions were granted
	r.Apply(t, fmt.Sprintf(instance, "one"))
	r.Await(t, r.Kind("Blog"), r.NS, "x", says("one"))

	t.Log("composites, with a role that is aggregated")
	r.Apply(t, things)
	r.permit(t, "things."+r.Group)
	suite.AwaitAggregated(t, r.Config)
	thing := r.Kind("Thing").GroupKind().WithVersion("v1")
	r.Apply(t, "{apiVersion: $GROUP/v1, kind: Thing, metadata: {name: x, namespace: $NS}, spec: {}}")
	r.AwaitReady(t, thing, r.NS, "x")
	r.forget() // what was tried before the API server knew the role

	t.Log("what alerts and the dashboard read")
	for _, name := range []string{"leader_election_master_status", "process_cpu_seconds_total", "process_resident_memory_bytes", "rest_client_requests_total"} {
		if !regexp.MustCompile("(?m)^" + name + `[ {]`).MatchString(r.metrics(t, metrics)) {
			t.Errorf("the program has no metric %s", name)
		}
	}
	r.nothingRefused(t)

	t.Log("an upgrade")
	stop()
	r.install(t, "controllers.workers=4", "controllers.moreColumns=true", "controllers.logFormat=text", "controllers.allowCRDDeletion=true", "image.tag=0.2.0", "ui.enabled=true")
	_, stop = r.start(t, "espalier")
	if got := get(t, "https://"+r.page+"/api/session", r.scraper); !strings.Contains(got, `"user":"system:serviceaccount:`+r.NS+`:prometheus"`) {
		t.Errorf("the page does not read as its viewer: %q", got)
	}
	if got := get(t, "https://"+r.page+"/api/session", ""); !strings.Contains(got, `"loggedIn":false`) {
		t.Errorf("the page without a token: %q", got)
	}
	r.Apply(t, fmt.Sprintf(instance, "two"))
	r.Await(t, r.Kind("Blog"), r.NS, "x", says("two"))
	r.nothingRefused(t)

	t.Log("and the end")
	r.Delete(t, thing, r.NS, "x")
	r.AwaitGone(t, thing, r.NS, "x")
	r.AwaitGone(t, suite.ConfigMap, r.NS, r.Name("thing"))
	r.Delete(t, r.Kind("Blog"), r.NS, "x")
	r.AwaitGone(t, r.Kind("Blog"), r.NS, "x")
	r.AwaitGone(t, suite.ConfigMap, r.NS, "x-blog")
	r.Delete(t, suite.RGD, "", r.Name("blog"))
	r.AwaitGone(t, suite.RGD, "", r.Name("blog"))
	stop()
	r.nothingRefused(t)
}

// TestShardsRunAsTheRenderedAccount has two installations share the instances of a definition with a service account.
func TestShardsRunAsTheRenderedAccount(t *testing.T) {
	r := newRelease(t)
	other := testkit.Namespace(t, r.Config)
	r.install(t, "controllers.watchNamespaces={!"+other+"}", "controllers.shards[0].name=other", "controllers.shards[0].watchNamespaces={"+other+"}")
	_, stop := r.start(t, "espalier")
	r.Apply(t, blog)
	r.Await(t, suite.RGD, "", r.Name("blog"), suite.IsPresent)
	r.permit(t, r.Name("blog"))
	r.AwaitReady(t, suite.RGD, "", r.Name("blog"))
	r.start(t, "espalier-other")
	r.forget() // what was tried before the permissions were granted
	namespaces := []string{r.NS, other}
	for _, ns := range namespaces {
		r.Apply(t, fmt.Sprintf(strings.Replace(instance, "$NS", ns, 1), "one"))
		r.Await(t, r.Kind("Blog"), ns, "x", says("one"))
	}
	stop()
	r.Apply(t, fmt.Sprintf(strings.Replace(instance, "$NS", other, 1), "two"))
	r.Await(t, r.Kind("Blog"), other, "x", says("two"))
	r.start(t, "espalier")
	for _, ns := range namespaces {
		r.Delete(t, r.Kind("Blog"), ns, "x")
		r.AwaitGone(t, suite.ConfigMap, ns, "x-blog")
	}
	r.nothingRefused(t)
}

// TestAProviderRunsAsItsRenderedAccount runs the PostgreSQL provider by itself. There is no server, so
// that its objects do not get ready.
func TestAProviderRunsAsItsRenderedAccount(t *testing.T) {
	r := newRelease(t, "providers.postgresql.enabled=true")
	_, stop := r.start(t, "espalier-provider-postgresql")
	r.Apply(t, `
apiVersion: v1
kind: Secret
metadata: {name: admin, namespace: $NS}
stringData: {username: postgres, password: wrong}
---
apiVersion: postgresql.espalier.dev/v1alpha1
kind: ClusterProviderConfig
metadata: {name: $ID}
spec:
  host: 127.0.0.1
  port: 1
  credentials: {secretRef: {name: admin, namespace: $NS}}
---
apiVersion: postgresql.espalier.dev/v1alpha1
kind: Role
metadata: {name: role, namespace: $NS}
spec:
  providerConfigRef: {name: $ID}
  forProvider: {}
  writeConnectionSecretToRef: {name: role}
`)
	role := suite.RGD.GroupKind().WithVersion("v1alpha1")
	role.Group, role.Kind = "postgresql.espalier.dev", "Role"
	r.Await(t, role, r.NS, "role", func(o *unstructured.Unstructured) error {
		if got := testkit.ConditionMessage(o, "Synced"); !strings.Contains(got, "127.0.0.1") {
			return fmt.Errorf("Synced says %q", got)
		}
		return nil
	})
	r.Delete(t, role, r.NS, "role")
	r.AwaitGone(t, role, r.NS, "role")
	stop()
	r.nothingRefused(t)
}
