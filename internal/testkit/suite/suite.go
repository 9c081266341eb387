// Package suite runs the controllers against a real API server for the tests of a package:
// all tests share one set of controllers, and each test has an API group and a namespace of
// its own.
package suite

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	rbacclient "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/testkit"
)

// shared holds the controllers that all tests of a package use.
var shared struct {
	once    sync.Once
	options server.Options
	prepare func(*testing.T, *testkit.Cluster)
	stop    func()
	err     error
	// awaitStarted waits until the controllers run.
	awaitStarted func(context.Context) error
	// installed is how the controllers connect if they run as an installation; nil otherwise.
	installed *rest.Config
}

// Main runs a package's tests with controllers that have the given options, completed with
// what tests need. It calls prepare, unless that is nil, before the controllers start.
func Main(m *testing.M, options server.Options, prepare func(*testing.T, *testkit.Cluster)) int {
	shared.options, shared.prepare, shared.stop = options, prepare, func() {}
	testkit.AtExit(func() { shared.stop() })
	return testkit.Main(m)
}

// Suite is one test's share of the cluster: its API group and its namespace.
type Suite struct {
	*testkit.Cluster
	Config *rest.Config
	// Group is the API group of the kinds that the test defines, NS the namespace of its
	// objects.
	Group, NS string
}

// New returns a Suite with running controllers, and marks the test as parallel.
func New(t *testing.T) Suite {
	t.Helper()
	t.Parallel()
	return NewSerial(t)
}

// NewSerial is New for a test that measures: it runs while no other test does.
func NewSerial(t *testing.T) Suite {
	t.Helper()
	config := testkit.ExclusiveServer(t)
	shared.once.Do(func() { start(t, config) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	s := Suite{Cluster: testkit.NewCluster(t, config), Config: config, Group: testkit.Group(t), NS: testkit.Namespace(t, config)}
	t.Cleanup(func() {
		if t.Failed() {
			s.dump(t)
		}
	})
	return s
}

// AwaitControllers waits until the controllers run: other tests need not, since their controllers catch up.
func (s Suite) AwaitControllers(t *testing.T) {
	t.Helper()
	if err := shared.awaitStarted(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// start runs the controllers. Where the options have a configuration, the controllers use
// its impersonation and its transport.
func start(t *testing.T, config *rest.Config) {
	t.Helper()
	if shared.prepare != nil {
		shared.prepare(t, testkit.NewCluster(t, config))
	}
	options := shared.options
	if os.Getenv("ESPALIER_TEST_LOG") != "" {
		options.Log = funcr.New(func(prefix, args string) { fmt.Fprintln(os.Stderr, time.Now().Format("15:04:05.000"), prefix, args) }, funcr.Options{Verbosity: 1})
	}
	ctx, cancel := context.WithCancel(context.Background())
	recorder, err := newRecorder(ctx, kubernetes.NewForConfigOrDie(config))
	if err != nil {
		cancel()
		shared.err = err
		return
	}
	options.Events, options.AllowCRDDeletion = recorder, true
	if options.Workers == 0 {
		options.Workers = 8
	}
	as := options.Config
	options.Config = rest.CopyConfig(config)
	if as != nil {
		options.Config.Impersonate, options.Config.WrapTransport = as.Impersonate, as.WrapTransport
	}
	if file := os.Getenv(InstallationVariable); file != "" && as == nil {
		installed, namespace, err := install(t, config, file, options)
		if err != nil {
			cancel()
			shared.err = fmt.Errorf("%s: %w", InstallationVariable, err)
			return
		}
		installed.WrapTransport = options.Config.WrapTransport
		options.Config, options.SigningKeyNamespace, options.AdmissionPolicies = installed, namespace, false
		// What prepare has created is granted before the controllers start, as before a takeover.
		administrator := newAdministrator(config, installed)
		administrator.grant(ctx)
		administrator.awaitGranted(t, installed)
		shared.installed = installed
		go administrator.run(ctx)
	}
	c, err := launch(options)
	if err != nil {
		cancel()
		shared.err = err
		return
	}
	shared.stop, shared.awaitStarted = func() { _ = c.Stop(); cancel() }, c.WaitStarted
}

// dump logs the status of the test's definitions, their instances, and the ConfigMaps of the test's namespace.
func (s Suite) dump(t *testing.T) {
	ctx := context.Background()
	definitions, err := s.Client.Resource(RGD.GroupVersion().WithResource("resourcegraphdefinitions")).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Log(err)
		return
	}
	for i := range definitions.Items {
		d := &definitions.Items[i]
		if group, _, _ := unstructured.NestedString(d.Object, "spec", "schema", "group"); group == s.Group {
			t.Logf("%s\n%s", d.GetName(), testkit.JSON(&unstructured.Unstructured{Object: map[string]any{"status": d.Object["status"]}}))
		}
	}
	instances, err := s.ListServed(ctx, schema.GroupVersion{Group: s.Group, Version: "v1alpha1"})
	if err != nil {
		t.Log(err)
	}
	children, err := s.Client.Resource(ConfigMap.GroupVersion().WithResource("configmaps")).Namespace(s.NS).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Log(err)
	} else {
		instances = append(instances, children.Items...)
	}
	for i := range instances {
		t.Log(testkit.JSON(&instances[i]))
	}
}

// newRecorder returns a recorder that writes Event objects.
func newRecorder(ctx context.Context, client kubernetes.Interface) (telemetry.Recorder, error) {
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return nil, err
	}
	return telemetry.NewRecorder(broadcaster.NewRecorder(runtime.NewScheme(), "espalier")), nil
}

// Expand replaces $GROUP and $NS by the test's group and namespace, and $ID by a unique
// prefix for names of cluster-scoped objects.
func (s Suite) Expand(yaml string) string {
	return strings.NewReplacer("$GROUP", s.Group, "$NS", s.NS, "$ID", strings.SplitN(s.Group, ".", 2)[0]).Replace(yaml)
}

// Apply applies the objects of a YAML text after Expand, and returns them as stored.
func (s Suite) Apply(t *testing.T, yaml string) []*unstructured.Unstructured {
	t.Helper()
	return s.Cluster.Apply(t, s.Expand(yaml))
}

// Account creates a service account in the test's namespace, with all permissions.
func (s Suite) Account(t *testing.T, name string) {
	t.Helper()
	s.Apply(t, `
apiVersion: v1
kind: ServiceAccount
metadata: {name: `+name+`, namespace: $NS}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: $ID-`+name+`}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, namespace: $NS, name: `+name+`}]
`)
}

// AllowImpersonation allows the controllers of an installation to impersonate a service account of the test's namespace.
func (s Suite) AllowImpersonation(t *testing.T, account string) {
	t.Helper()
	s.Apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: controllers, namespace: $NS}
rules: [{apiGroups: [""], resources: [serviceaccounts], resourceNames: [`+account+`], verbs: [impersonate]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: controllers, namespace: $NS}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: controllers}
subjects: [{kind: ServiceAccount, namespace: espalier-system, name: espalier-controllers}]
`)
}

// AllowComposing allows the controllers to compose all kinds of API groups, as an administrator does
// for composites. Without an installation they may do so anyway.
func (s Suite) AllowComposing(t *testing.T, groups ...string) {
	t.Helper()
	// Each call adds permissions, so that its role has a name of its own.
	s.Apply(t, ComposingRole("$ID-composed-"+object.Digest(groups)[:8], groups...))
	if shared.installed == nil {
		return
	}
	for _, group := range groups {
		awaitAllowed(t, shared.installed, composing(s.Expand(group)))
	}
}

// composed returns the API groups that the ClusterRoles of ComposingRole name.
func composed(ctx context.Context, roles rbacclient.ClusterRoleInterface) []string {
	all, err := roles.List(ctx, metav1.ListOptions{LabelSelector: composingLabel + "=true"})
	if err != nil {
		return nil
	}
	var out []string
	for _, role := range all.Items {
		for _, rule := range role.Rules {
			if slices.Contains(rule.Resources, "*") {
				out = append(out, rule.APIGroups...)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// composingLabel has an administrator's ClusterRoles count for the controllers.
const composingLabel = "rbac.espalier.dev/aggregate-to-controllers"

// ComposingRole is a ClusterRole that allows the controllers to compose all kinds of API groups.
func ComposingRole(name string, groups ...string) string {
	return fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: %s, labels: {`+composingLabel+`: "true"}}
rules: [{apiGroups: ["%s"], resources: ["*"], verbs: [get, list, watch, create, update, patch, delete]}]
`, name, strings.Join(groups, `", "`))
}

// Kind is one of the test's own kinds.
func (s Suite) Kind(name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: s.Group, Version: "v1alpha1", Kind: name}
}

// Name is the name of a cluster-scoped object of the test, as $ID-name in a text.
func (s Suite) Name(name string) string { return s.Expand("$ID-" + name) }

// AwaitDefinitions waits until ResourceGraphDefinitions of the test are ready.
func (s Suite) AwaitDefinitions(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		s.AwaitReady(t, RGD, "", s.Name(name))
	}
}

// AwaitEvent waits for an event about an object of the given name, of any kind.
func (s Suite) AwaitEvent(t *testing.T, about, reason string, contains ...string) {
	t.Helper()
	s.awaitEvent(t, s.NS, func(_, name string) bool { return name == about }, about, reason, contains)
}

// AwaitEventOn waits for an event about an object of the same kind and name; events about
// cluster-scoped objects are in the namespace default.
func (s Suite) AwaitEventOn(t *testing.T, o *unstructured.Unstructured, reason string, contains ...string) {
	t.Helper()
	namespace := o.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	is := func(kind, name string) bool { return kind == o.GetKind() && name == o.GetName() }
	s.awaitEvent(t, namespace, is, o.GetKind()+" "+o.GetName(), reason, contains)
}

func (s Suite) awaitEvent(t *testing.T, namespace string, is func(kind, name string) bool, about, reason string, contains []string) {
	t.Helper()
	kind := schema.GroupVersionKind{Group: "events.k8s.io", Version: "v1", Kind: "Event"}
	err := testkit.AwaitList(t.Context(), s.Resource(t, kind, namespace), metav1.ListOptions{}, func(objects map[string]*unstructured.Unstructured) error {
		var seen []string
		for _, o := range objects {
			kind, _, _ := unstructured.NestedString(o.Object, "regarding", "kind")
			name, _, _ := unstructured.NestedString(o.Object, "regarding", "name")
			note, _, _ := unstructured.NestedString(o.Object, "note")
			why, _, _ := unstructured.NestedString(o.Object, "reason")
			seen = append(seen, name+" "+why+": "+note)
			matches := is(kind, name) && why == reason
			for _, text := range contains {
				matches = matches && strings.Contains(note, text)
			}
			if matches {
				return nil
			}
		}
		return fmt.Errorf("no event %s about %s saying %q; there are:\n%s", reason, about, contains, strings.Join(seen, "\n"))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Kinds that tests use.
var (
	RGD       = schema.GroupVersionKind{Group: "kro.run", Version: "v1alpha1", Kind: "ResourceGraphDefinition"}
	RG        = schema.GroupVersionKind{Group: "kro.run", Version: "v1alpha1", Kind: "ResourceGroup"}
	CRD       = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	Secret    = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	ConfigMap = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
)
