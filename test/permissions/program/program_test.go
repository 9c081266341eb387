// Package program runs the whole program on a real API server as a service account that has
// the rights which 'espalier rbac' prints, and no others.
package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/cmd/espalier/cli"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/program/webhook"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/sandbox"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
	"github.com/espalier-dev/espalier/sdk/managed"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

// refusals are the requests that the API server forbids the program itself, not those that
// it makes for another account.
type refusals struct {
	next  http.RoundTripper
	world *world
}

func (r refusals) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := r.next.RoundTrip(request)
	ofOthers := strings.Contains(request.URL.Path, ".example.com/") && !strings.Contains(request.URL.Path, r.world.Group) // that another test has left
	if err == nil && answer.StatusCode == http.StatusForbidden && request.Header.Get("Impersonate-User") == "" && !ofOthers {
		r.world.mu.Lock()
		defer r.world.mu.Unlock()
		r.world.refused = append(r.world.refused, request.Method+" "+request.URL.Path+" watch="+request.URL.Query().Get("watch"))
	}
	return answer, err
}

// world is a server, and the program that runs against it as a service account of its own
// namespace.
type world struct {
	suite.Suite
	options server.ManagerOptions
	log     *lines
	mu      sync.Mutex
	refused []string
}

// lines are what the program logs.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if os.Getenv("ESPALIER_TEST_LOG") != "" {
		_, _ = os.Stderr.Write(p)
	}
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// account is the name of the service account.
const account = "controllers"

func begin(t *testing.T) *world {
	t.Helper()
	config := testkit.ExclusiveServer(t)
	w := &world{log: &lines{}, Suite: suite.Suite{Cluster: testkit.NewCluster(t, config), Config: config, Group: testkit.Group(t), NS: testkit.Namespace(t, config)}}
	w.FreeLeases(t)
	w.Apply(t, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: "+account+", namespace: $NS}\n")
	as := rest.AnonymousClientConfig(config)
	as.BearerToken = w.token(t)
	as.Wrap(func(next http.RoundTripper) http.RoundTripper { return refusals{next, w} })
	sky := cloud.New(cloud.Options{Behaviours: sandbox.TypicalBehaviours()})
	w.options = server.ManagerOptions{
		Options: manager.Options{
			Name: "espalier", Version: "test", Config: as, Log: manager.NewLogger(w.log, manager.LogText, 0), HealthAddress: free(t), MetricsAddress: "0",
			LeaderElection: true, LeaderElectionNamespace: w.NS,
		},
		Settings: server.Settings{Workers: 4, AllowCRDDeletion: true, Usages: true}, Providers: []managed.Provider{sandbox.Provider(sky)},
		Webhook: &webhook.Options{Address: "127.0.0.1:0", URL: "https://127.0.0.1", Namespace: w.NS},
	}
	return w
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

// token is one by which the API server knows the service account.
func (w *world) token(t *testing.T) string {
	t.Helper()
	request := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": map[string]any{"name": account}, "spec": map[string]any{},
	}}
	accounts := w.Client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}).Namespace(w.NS)
	answer, err := accounts.Create(t.Context(), request, metav1.CreateOptions{}, "token")
	if err != nil {
		t.Fatal(err)
	}
	token, _, _ := unstructured.NestedString(answer.Object, "status", "token")
	return token
}

// start runs the program until the test ends.
func (w *world) start(t *testing.T) (ready <-chan struct{}) {
	t.Helper()
	led := make(chan struct{})
	w.options.Ready = led
	m, err := server.NewManager(w.options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the program ends with %v", err)
		}
	})
	return led
}

// startGranted starts the program with all its permissions, and waits until it is ready.
func startGranted(t *testing.T) *world {
	t.Helper()
	w := begin(t)
	w.grant(t)
	select {
	case <-w.start(t):
	case <-time.After(testkit.Timeout):
		t.Fatal("not ready")
	}
	return w
}

// grant applies what 'espalier rbac --controllers' prints for the program, and what its
// provider, which the command does not know, needs beyond that.
func (w *world) grant(t *testing.T) {
	t.Helper()
	w.Apply(t, w.printed(t, "--controllers", "--serviceaccount", w.NS+":"+account, "--webhook"))
	all, err := server.Needs(w.options)
	if err != nil {
		t.Fatal(err)
	}
	without := w.options
	without.Providers = nil
	base, err := server.Needs(without)
	if err != nil {
		t.Fatal(err)
	}
	more := slices.DeleteFunc(all, func(n rbac.Permission) bool { return slices.Contains(base, n) })
	for _, o := range (rbac.Grant{Name: w.Name("provider"), Permissions: more, Subjects: []rbacv1.Subject{rbac.ServiceAccount(w.NS, account)}}).Objects() {
		text, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		w.Apply(t, string(text))
	}
}

// printed is what espalier rbac prints of a definition.
func (w *world) printed(t *testing.T, arguments ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	arguments = append([]string{"rbac", "--kubeconfig", testkit.Kubeconfig(t, w.Config)}, arguments...)
	if code := cli.Main(t.Context(), arguments, &out, &errs); code != 0 || errs.Len() > 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	return out.String()
}

// nothingRefused checks that the program was allowed all that it tried since the last check.
func (w *world) nothingRefused(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.refused)
	for _, request := range slices.Compact(w.refused) {
		t.Errorf("the program lacks the right to %s", request)
	}
	w.refused = nil
}

func (w *world) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = nil
}

var site = suite.Graph("Site", `spec: {text: string}, status: {text: "${page.data.text}"}`, `
    - {id: page, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-site"}, data: {text: "${schema.spec.text}"}}}
`)

// blog is the same for a service account, which it creates.
var blog = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: builder, namespace: $NS}\n---" + strings.NewReplacer("kind: Site", "kind: Blog", "}-site", "}-blog", "$ID-site", "$ID-blog", "spec:\n  schema", "spec:\n  serviceAccount: {namespace: $NS, name: builder}\n  schema").Replace(site)

const instance = `
apiVersion: $GROUP/v1alpha1
kind: %s
metadata: {name: x, namespace: $NS}
spec: {text: %s}
`

// lacking checks the missing permissions that a definition reports.
func lacking(all ...string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		got := testkit.ConditionStatus(o, "PermissionsGranted") + " " + testkit.ConditionMessage(o, "PermissionsGranted")
		for _, text := range append([]string{"False"}, all...) {
			if !strings.Contains(got, text) {
				return fmt.Errorf("it doesn't tell of %q: %s", text, got)
			}
		}
		return nil
	}
}

func granted(o *unstructured.Unstructured) error {
	if testkit.ConditionStatus(o, "PermissionsGranted") != "True" {
		return errors.New("it says " + testkit.ConditionMessage(o, "PermissionsGranted"))
	}
	return nil
}

// TestThePrintedRolesSuffice creates, changes and deletes a definition, instances and the other
// objects that the program serves, with the printed roles only.
func TestThePrintedRolesSuffice(t *testing.T) {
	w := startGranted(t)
	w.nothingRefused(t)

	t.Log("a definition whose instances are the controllers' to look after")
	w.Apply(t, site)
	w.Await(t, suite.RGD, "", w.Name("site"), lacking("system:serviceaccount:"+w.NS+":"+account, "create, delete, get, list, patch and watch configmaps",
		"get, list, patch and watch sites."+w.Group, "espalier rbac "+w.Name("site")+" --serviceaccount "+w.NS+":"+account))
	w.Apply(t, w.printed(t, w.Name("site")))
	w.Await(t, suite.RGD, "", w.Name("site"), granted)
	w.AwaitReady(t, suite.RGD, "", w.Name("site"))
	w.forget() // what was tried before
	w.Apply(t, fmt.Sprintf(instance, "Site", "one"))
	w.AwaitReady(t, w.Kind("Site"), w.NS, "x")
	w.Apply(t, fmt.Sprintf(instance, "Site", "two"))
	w.Await(t, w.Kind("Site"), w.NS, "x", says("two"))
	w.Apply(t, strings.Replace(site, "data: {text", "data: {more: and more, text", 1))
	w.Await(t, suite.ConfigMap, w.NS, "x-site", func(o *unstructured.Unstructured) error {
		if more, _, _ := unstructured.NestedString(o.Object, "data", "more"); more == "" {
			return errors.New("it is of the revision before")
		}
		return nil
	})
	w.nothingRefused(t)

	t.Log("a definition that names an account")
	w.Apply(t, blog)
	w.Await(t, suite.RGD, "", w.Name("blog"), lacking("list and watch blogs."+w.Group, "impersonate, list and watch serviceaccounts named builder in namespace "+w.NS))
	w.Apply(t, w.printed(t, w.Name("blog")))
	w.Await(t, suite.RGD, "", w.Name("blog"), granted)
	w.AwaitReady(t, suite.RGD, "", w.Name("blog"))
	w.forget()
	w.Apply(t, fmt.Sprintf(instance, "Blog", "three"))
	w.Await(t, w.Kind("Blog"), w.NS, "x", says("three"))

	t.Log("what else the program serves")
	w.Apply(t, others)
	w.Await(t, kindOf("apiextensions.crossplane.io/v1", "CompositeResourceDefinition"), "", w.Expand("things.$GROUP"), func(o *unstructured.Unstructured) error {
		if testkit.ConditionStatus(o, "Established") == "" {
			return errors.New("it doesn't say how it is")
		}
		return nil
	})
	w.AwaitReady(t, kindOf("sandbox.espalier.dev/v1alpha1", "Bucket"), w.NS, "bucket")
	w.Await(t, kindOf("protection.crossplane.io/v1beta1", "Usage"), w.NS, "kept", func(o *unstructured.Unstructured) error {
		if testkit.ConditionStatus(o, "Ready") == "" {
			return errors.New("it doesn't say how it is")
		}
		return nil
	})

	t.Log("and their ends")
	w.end(t)
	w.Delete(t, kindOf("sandbox.espalier.dev/v1alpha1", "Bucket"), w.NS, "bucket")
	w.AwaitGone(t, kindOf("sandbox.espalier.dev/v1alpha1", "Bucket"), w.NS, "bucket")
	w.nothingRefused(t)
}

// end deletes the instances of both definitions, and then these.
func (w *world) end(t *testing.T) {
	t.Helper()
	for _, kind := range []string{"Site", "Blog"} {
		w.Delete(t, w.Kind(kind), w.NS, "x")
		w.AwaitGone(t, w.Kind(kind), w.NS, "x")
		w.Delete(t, suite.RGD, "", w.Name(strings.ToLower(kind)))
		w.AwaitGone(t, suite.RGD, "", w.Name(strings.ToLower(kind)))
	}
}

// others are objects of the other kinds that the program serves. Composites need a role of
// their own.
const others = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: $ID-things}
rules: [{apiGroups: [$GROUP], resources: [things], verbs: [get, list, patch, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: $ID-things}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: $ID-things}
subjects: [{kind: ServiceAccount, namespace: $NS, name: controllers}]
---
apiVersion: apiextensions.crossplane.io/v1
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
  pipeline: [{step: one, functionRef: {name: function-patch-and-transform}, input: {apiVersion: pt.fn.crossplane.io/v1beta1, kind: Resources, resources: []}}]
---
apiVersion: sandbox.espalier.dev/v1alpha1
kind: Bucket
metadata: {name: bucket, namespace: $NS}
spec: {forProvider: {region: here}}
---
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: kept, namespace: $NS}
spec:
  of: {apiVersion: sandbox.espalier.dev/v1alpha1, kind: Bucket, resourceRef: {name: nowhere}}
  reason: it is needed
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

func kindOf(version, kind string) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(version, kind)
}
