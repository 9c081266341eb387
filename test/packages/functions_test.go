package packages

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/internal/composition/packages/revision"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

var (
	functionKind      = v1.GroupVersion.WithKind(v1.FunctionKind)
	revisionKind      = v1.GroupVersion.WithKind(v1.FunctionRevisionKind)
	deploymentKind    = appsv1.SchemeGroupVersion.WithKind("Deployment")
	secretKind        = corev1.SchemeGroupVersion.WithKind("Secret")
	configurationKind = v1.GroupVersion.WithKind(v1.ConfigurationKind)
)

// world is a cluster with a registry, a kubelet and controllers that install packages.
type world struct {
	*testkit.Cluster
	*images
	config    *rest.Config
	namespace string
	kubelet   *kubelet
	cache     string
	// permissions bound those of providers, and external are the kinds whose programs run elsewhere.
	permissions []rbacv1.PolicyRule
	external    []string
	// activations are what the first activation policy activates.
	activations []string
	// operations are how operations are run; nil for none.
	operations *server.OperationOptions
	// ahead is by how much the clock of the controllers is ahead.
	ahead atomic.Int64
}

func newWorld(t *testing.T) *world {
	t.Helper()
	config := testkit.ExclusiveServer(t)
	w := &world{Cluster: testkit.NewCluster(t, config), images: newImages(t), config: config, namespace: testkit.Namespace(t, config), cache: t.TempDir()}
	t.Cleanup(func() { // once the controllers have stopped
		for _, kind := range []schema.GroupVersionKind{configurationKind, functionKind, providerKind, revisionKind, v1.GroupVersion.WithKind(v1.ConfigurationRevisionKind), v1.GroupVersion.WithKind(v1.ProviderRevisionKind)} {
			resource := w.Resource(t, kind, "")
			if all, err := resource.List(context.Background(), metav1.ListOptions{}); err == nil {
				for _, o := range all.Items {
					_, _ = resource.Patch(context.Background(), o.GetName(), types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{})
				}
			}
			_ = resource.DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{})
		}
	})
	w.kubelet = runKubelet(t, config, w.namespace)
	return w
}

// start runs the controllers, and waits until they run.
func (w *world) start(t *testing.T, config *rest.Config) *suite.Controllers {
	t.Helper()
	c := w.begin(t, config)
	t.Cleanup(func() { _ = c.Stop() })
	if err := c.WaitStarted(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.configure(t)
	return c
}

func (w *world) begin(t *testing.T, config *rest.Config) *suite.Controllers {
	t.Helper()
	return suite.Start(t, server.Options{
		Config: config, Packages: &server.PackageOptions{Namespace: w.namespace, CacheDir: w.cache, ProviderPermissions: w.permissions, External: w.external, DefaultActivations: w.activations}, Operations: w.operations,
		Now: func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }, Log: testr.NewWithOptions(t, testr.Options{}),
		SigningKeyNamespace: w.namespace, Settings: server.Settings{AdmissionPolicies: true},
	})
}

// configure lets functions listen at the addresses of their pods.
func (w *world) configure(t *testing.T) {
	t.Helper()
	w.Apply(t, `{apiVersion: pkg.crossplane.io/v1beta1, kind: DeploymentRuntimeConfig, metadata: {name: default}, spec: {deploymentTemplate: {spec: {selector: {}, template: {spec: {containers: [{name: package-runtime, args: ["--address=$(POD_IP):9443"], env: [{name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]}]}}}}}}`)
}

// install applies a package of a kind.
func (w *world) install(t *testing.T, kind, name, image string, more ...string) {
	t.Helper()
	w.Apply(t, fmt.Sprintf("{apiVersion: pkg.crossplane.io/v1, kind: %s, metadata: {name: %s}, spec: {package: %s/%s%s}}", kind, name, w.host, image, strings.Join(append([]string{""}, more...), ", ")))
}

// call calls a function, and returns what it answers.
func call(ctx context.Context, c *suite.Controllers, name string) string {
	response, err := c.Functions.Run(ctx, name, &fnv1.RunFunctionRequest{Meta: &fnv1.RequestMeta{Tag: "x"}})
	if err != nil {
		return "error: " + err.Error()
	}
	if len(response.GetResults()) != 1 {
		return "no answer"
	}
	return response.GetResults()[0].GetMessage()
}

func healthy(o *unstructured.Unstructured) error {
	return suite.All(suite.IsPresent, suite.HasCondition("Installed", "True", "ActivePackageRevision"), suite.HasCondition("Healthy", "True", "HealthyPackageRevision"))(o)
}

// TestAnInstalledFunctionNeedsNoRegistry, not even when the controllers start.
func TestAnInstalledFunctionNeedsNoRegistry(t *testing.T) {
	w := newWorld(t)
	w.push(t, "org/function-steady:v1.0.0", answering(t, "steady"), w.meta("Function", "function-steady"))
	c := w.start(t, w.config)
	w.install(t, "Function", "steady", "org/function-steady:v1.0.0")
	w.Await(t, functionKind, "", "steady", healthy)
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	w.refuses.Store(http.StatusServiceUnavailable)
	w.cache = t.TempDir()
	before := w.Get(t, functionKind, "", "steady").GetResourceVersion()
	c = w.start(t, w.config)
	testkit.Poll(t, "it answers", func() bool { return call(t.Context(), c, "steady") == "steady" })
	if after := w.Get(t, functionKind, "", "steady"); after.GetResourceVersion() != before {
		t.Errorf("it was written: %s", testkit.JSON(after))
	}
	w.Delete(t, functionKind, "", "steady")
}

// TestAFunctionIsInstalledUpgradedAndRolledBack without a call that fails.
func TestAFunctionIsInstalledUpgradedAndRolledBack(t *testing.T) {
	w := newWorld(t)
	first := w.push(t, "org/function-echo:v1.0.0", answering(t, "one"), w.meta("Function", "function-echo"))
	second := w.push(t, "org/function-echo:v1.1.0", answering(t, "two"), w.meta("Function", "function-echo"))
	c := w.start(t, w.config)
	w.install(t, "Function", "echo", "org/function-echo:v1.0.0")
	w.Await(t, functionKind, "", "echo", healthy)
	if got := call(t.Context(), c, "echo"); got != "one" {
		t.Fatalf("it answers %q", got)
	}
	one, two := "echo-"+strings.TrimPrefix(first, "sha256:")[:12], "echo-"+strings.TrimPrefix(second, "sha256:")[:12]
	r := w.Get(t, revisionKind, "", one)
	for field, want := range map[string]string{"endpoint": "dns:///echo." + w.namespace + ":9443", "resolvedImage": w.host + "/org/function-echo:v1.0.0@" + first} {
		if got, _, _ := unstructured.NestedString(r.Object, "status", field); got != want {
			t.Errorf("status.%s is %q, want %q", field, got, want)
		}
	}

	// Calls go on during the upgrade.
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan string, 1)
	go func() {
		defer close(failed)
		for ctx.Err() == nil {
			if got := call(ctx, c, "echo"); got != "one" && got != "two" && ctx.Err() == nil {
				failed <- got
				return
			}
		}
	}()
	w.install(t, "Function", "echo", "org/function-echo:v1.1.0")
	w.Await(t, revisionKind, "", two, suite.All(suite.IsPresent, suite.HasCondition("RuntimeHealthy", "True", "")))
	testkit.Poll(t, "the new revision answers", func() bool { return call(t.Context(), c, "echo") == "two" })
	w.ahead.Add(int64(revision.Drain + time.Second))
	w.Patch(t, functionKind, "", "echo", `{"metadata": {"labels": {"clock": "later"}}}`)
	testkit.Poll(t, "the old revision is inactive and does not run", func() bool {
		state, _, _ := unstructured.NestedString(w.Get(t, revisionKind, "", one).Object, "spec", "desiredState")
		return state == "Inactive" && w.kubelet.running() == 1
	})
	cancel()
	if got, ok := <-failed; ok {
		t.Errorf("a call during the upgrade: %s", got)
	}

	// A rollback activates the revision that exists.
	uid := w.Get(t, revisionKind, "", one).GetUID()
	w.install(t, "Function", "echo", "org/function-echo:v1.0.0")
	testkit.Poll(t, "the first revision answers again", func() bool { return call(t.Context(), c, "echo") == "one" })
	if w.Get(t, revisionKind, "", one).GetUID() != uid {
		t.Error("the revision was created again")
	}
}

// TestCertificatesAreRenewed while a function is called: its pods start again to read them.
func TestCertificatesAreRenewed(t *testing.T) {
	w := newWorld(t)
	w.push(t, "org/function-renewed:v1.0.0", answering(t, "renewed"), w.meta("Function", "function-renewed"))
	w.ahead.Store(-int64(250 * 24 * time.Hour)) // when a year is valid, two thirds of it have passed today
	c := w.start(t, w.config)
	w.install(t, "Function", "renewed", "org/function-renewed:v1.0.0")
	w.Await(t, functionKind, "", "renewed", healthy)
	old := w.Get(t, secretKind, w.namespace, "renewed-tls-server")
	if got := call(t.Context(), c, "renewed"); got != "renewed" {
		t.Fatalf("it answers %q", got)
	}
	w.ahead.Store(0)
	revision := w.List(t, revisionKind, "", "pkg.crossplane.io/package=renewed")[0].GetName()
	w.Patch(t, revisionKind, "", revision, `{"metadata": {"labels": {"clock": "today"}}}`)
	w.Patch(t, functionKind, "", "renewed", `{"metadata": {"labels": {"clock": "today"}}}`)
	w.Await(t, secretKind, w.namespace, "renewed-tls-server", func(o *unstructured.Unstructured) error {
		if o == nil || object.Digest(o.Object["data"]) == object.Digest(old.Object["data"]) {
			return errors.New("it is the same")
		}
		return nil
	})
	w.Await(t, deploymentKind, w.namespace, revision, func(o *unstructured.Unstructured) error {
		if observed, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration"); observed < 2 {
			return errors.New("the pods have not started again")
		}
		return nil
	})
	testkit.Poll(t, "it answers again", func() bool { return call(t.Context(), c, "renewed") == "renewed" })
	w.Delete(t, functionKind, "", "renewed")
}
