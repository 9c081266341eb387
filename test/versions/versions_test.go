// Package versions tests kinds that are served in several versions: a real API server calls the
// conversion webhook of the program.
package versions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/program/webhook"
	"github.com/espalier-dev/espalier/internal/serving/cluster"
	"github.com/espalier-dev/espalier/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

var (
	configMap = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	rgd       = schema.GroupVersionKind{Group: "kro.run", Version: "v1alpha1", Kind: "ResourceGraphDefinition"}
	crdKind   = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
)

// program is the program, and a group and namespace in its cluster.
type program struct {
	*testkit.Cluster
	config    *rest.Config
	dir       webhook.Directory
	group, ns string
	stop      func()
}

// newProgram runs the program, with a webhook, against the API server of this test binary.
func newProgram(t *testing.T) *program {
	t.Helper()
	w := newStoppedProgram(t, testkit.ExclusiveServer(t))
	w.start(t, true)
	return w
}

// newStoppedProgram is a program that is not started.
func newStoppedProgram(t *testing.T, config *rest.Config) *program {
	t.Helper()
	w := &program{
		Cluster: testkit.NewCluster(t, config), config: config, dir: webhook.Directory(t.TempDir() + "/webhook"),
		group: testkit.Group(t), ns: testkit.Namespace(t, config), stop: func() {},
	}
	t.Cleanup(func() {
		if t.Failed() {
			o, err := w.Resource(t, rgd, "").Get(context.WithoutCancel(t.Context()), w.group, metav1.GetOptions{})
			t.Log(testkit.JSON(o), err)
		}
		w.stop()
	})
	return w
}

// start runs the program, with or without a webhook, after the previous one has stopped.
func (w *program) start(t *testing.T, hook bool) {
	t.Helper()
	w.stop()
	var at *webhook.Options
	if hook {
		at = &webhook.Options{Address: "127.0.0.1:0", URL: "https://127.0.0.1", Store: w.dir}
	}
	ready := make(chan struct{})
	stop, ended := w.process(t, server.ManagerOptions{Options: manager.Options{Ready: ready}, Webhook: at})
	w.stop = stop
	select {
	case <-ready:
	case <-ended:
		t.Fatal("the program has ended")
	case <-time.After(time.Minute):
		t.Fatal("not ready")
	}
}

// process runs one process of the program.
func (w *program) process(t *testing.T, options server.ManagerOptions) (stop func(), ended <-chan struct{}) {
	t.Helper()
	options.Name, options.Version, options.Config = "espalier", "test", rest.CopyConfig(w.config)
	options.Log, options.HealthAddress, options.MetricsAddress = manager.NewLogger(logTo(), manager.LogText, 1), "0", "0"
	options.Workers, options.AllowCRDDeletion = 8, true
	m, err := server.NewManager(options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		if err := m.Run(ctx); err != nil {
			t.Errorf("the program ends with %v", err)
		}
	}()
	return sync.OnceFunc(func() { cancel(); <-over }), over
}

func logTo() io.Writer {
	if os.Getenv("ESPALIER_TEST_LOG") != "" {
		return os.Stderr
	}
	return io.Discard
}

func (w *program) text(text string) string {
	return strings.NewReplacer("$GROUP", w.group, "$NS", w.ns).Replace(text)
}

func (w *program) put(t *testing.T, text string) { t.Helper(); w.Apply(t, w.text(text)) }

func (w *program) kind(version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: w.group, Version: version, Kind: "App"}
}

// in reads an instance in a version, after the API server serves it.
func (w *program) in(t *testing.T, version, name string) *unstructured.Unstructured {
	t.Helper()
	var (
		o   *unstructured.Unstructured
		err error
	)
	resource := w.group + "/" + version
	testkit.Poll(t, "an instance is read in "+resource, func() bool {
		o, err = w.apps(version).Get(t.Context(), name, metav1.GetOptions{})
		return err == nil
	})
	return o
}

func spec(o *unstructured.Unstructured, path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(o.Object, append([]string{"spec"}, path...)...)
	return value
}

// awaitData waits until the instance's ConfigMap has the data.
func (w *program) awaitData(t *testing.T, name string, want map[string]string) {
	t.Helper()
	w.Await(t, configMap, w.ns, name, func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("does not exist")
		}
		data, _, _ := unstructured.NestedStringMap(o.Object, "data")
		for key, value := range want {
			if data[key] != value {
				return fmt.Errorf("%s is %q, want %q", key, data[key], value)
			}
		}
		return nil
	})
}

// patch changes an instance in a version as kubectl patch does.
func (w *program) patch(t *testing.T, version, name string, change map[string]any) error {
	t.Helper()
	raw, err := json.Marshal(change)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.apps(version).Patch(t.Context(), name, types.MergePatchType, raw, metav1.PatchOptions{FieldManager: "kubectl-patch"})
	return err
}

// awaitKind waits until the condition KindReady of the definition has the reason and texts.
func (w *program) awaitKind(t *testing.T, reason string, contains ...string) {
	t.Helper()
	w.Await(t, rgd, "", w.group, func(o *unstructured.Unstructured) error {
		if got := testkit.ConditionReason(o, "KindReady"); got != reason {
			return fmt.Errorf("the reason is %q", got)
		}
		for _, text := range contains {
			if !strings.Contains(testkit.ConditionMessage(o, "KindReady"), text) {
				return fmt.Errorf("%q isn't in %q", text, testkit.ConditionMessage(o, "KindReady"))
			}
		}
		return nil
	})
}

func (w *program) crd(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	return w.Get(t, crdKind, "", "apps."+w.group)
}

// definition has the version v1, which the expressions use, and others.
func definition(versions string) string {
	return `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $GROUP}
spec:
  schema:
    apiVersion: v1
    kind: App
    group: $GROUP
    spec: {replicas: integer | default=1, image: string | default=none, probe: string, labels: "map[string]string"}
` + versions + graph
}

const graph = `
  resources:
    - id: map
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: "${schema.metadata.name}"}
        data: {replicas: "${string(schema.spec.replicas)}", image: "${schema.spec.image}", probe: "${schema.spec.?probe.orValue('none')}"}
`

const both = `
    versions:
      - name: v1alpha1
        deprecated: true
        deprecationWarning: use v1 instead
        spec: {size: string | default=small, image: string | default=none, legacy: string, labels: "map[string]string"}
        conversion:
          to: {spec: {replicas: '${self.spec.size == "large" ? 5 : 1}'}}
          from: {spec: {size: '${self.spec.replicas > 3 ? "large" : "small"}'}}
`

const old = `
apiVersion: $GROUP/v1alpha1
kind: App
metadata: {name: $NAME, namespace: $NS}
spec: {size: large, image: "1", legacy: l}
`

func TestVersions(t *testing.T) {
	w := newProgram(t)
	w.put(t, definition(both))
	w.AwaitReady(t, rgd, "", w.group)

	t.Run("An instance of the old version is reconciled and read in both", func(t *testing.T) {
		w.put(t, strings.ReplaceAll(old, "$NAME", "a"))
		w.awaitData(t, "a", map[string]string{"replicas": "5", "image": "1"})
		w.AwaitReady(t, w.kind("v1"), w.ns, "a")
		o := w.in(t, "v1alpha1", "a")
		if spec(o, "size") != "large" || spec(o, "legacy") != "l" {
			t.Errorf("in v1alpha1 the instance is %s", testkit.JSON(o))
		}
		if err := testkit.IsReady(o); err != nil {
			t.Errorf("in v1alpha1: %v", err)
		}
		o = w.in(t, "v1", "a")
		if spec(o, "replicas") != int64(5) || spec(o, "legacy") != nil {
			t.Errorf("in v1 the instance is %s", testkit.JSON(o))
		}
	})

	t.Run("It is edited in either without loss", func(t *testing.T) {
		noError(t, w.patch(t, "v1", "a", map[string]any{"spec": map[string]any{"replicas": 7, "probe": "/up"}}))
		w.awaitData(t, "a", map[string]string{"replicas": "7", "probe": "/up"})
		noError(t, w.patch(t, "v1alpha1", "a", map[string]any{"spec": map[string]any{"image": "2"}}))
		w.awaitData(t, "a", map[string]string{"replicas": "7", "image": "2", "probe": "/up"})
		if o := w.in(t, "v1alpha1", "a"); spec(o, "legacy") != "l" || spec(o, "size") != "large" || spec(o, "image") != "2" {
			t.Errorf("in v1alpha1 the instance is %s", testkit.JSON(o))
		}
		noError(t, w.patch(t, "v1alpha1", "a", map[string]any{"spec": map[string]any{"size": "small"}}))
		w.awaitData(t, "a", map[string]string{"replicas": "1", "image": "2", "probe": "/up"})
	})

	t.Run("It is applied again in the old version, which leaves alone what only the new one has", func(t *testing.T) {
		w.put(t, strings.ReplaceAll(strings.Replace(old, `image: "1"`, `image: "3"`, 1), "$NAME", "a"))
		w.awaitData(t, "a", map[string]string{"replicas": "5", "image": "3", "probe": "/up"})
		if o := w.in(t, "v1", "a"); spec(o, "probe") != "/up" {
			t.Errorf("in v1 the instance is %s", testkit.JSON(o))
		}
	})

	t.Run("All are listed and watched in both", func(t *testing.T) {
		w.put(t, strings.ReplaceAll(old, "$NAME", "b"))
		w.AwaitReady(t, w.kind("v1alpha1"), w.ns, "b")
		for _, version := range []string{"v1", "v1alpha1"} {
			list, err := w.apps(version).List(t.Context(), metav1.ListOptions{})
			if err != nil || len(list.Items) != 2 {
				t.Errorf("%s: %d instances, %v", version, len(list.Items), err)
			}
		}
	})

	t.Run("Those who use the old version are warned", func(t *testing.T) {
		var warned warnings
		config := rest.CopyConfig(w.config)
		config.WarningHandler = &warned
		if _, err := testkit.NewCluster(t, config).Resource(t, w.kind("v1alpha1"), w.ns).Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(warned.texts, "use v1 instead") {
			t.Errorf("the warnings are %q", warned.texts)
		}
	})

	t.Run("Another definition composes it in the old version, and then in the new one", func(t *testing.T) {
		outer := func(version, field string) string {
			return w.text("apiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: outer.$GROUP}\nspec:\n  schema: {apiVersion: v1alpha1, kind: Outer, group: $GROUP}\n  resources:\n" +
				"    - {id: app, template: {apiVersion: $GROUP/" + version + ", kind: App, metadata: {name: inner}, spec: {" + field + ", image: x}}}\n")
		}
		kind := schema.GroupVersionKind{Group: w.group, Version: "v1alpha1", Kind: "Outer"}
		w.put(t, outer("v1alpha1", "size: large"))
		w.AwaitReady(t, rgd, "", "outer."+w.group)
		w.put(t, "apiVersion: $GROUP/v1alpha1\nkind: Outer\nmetadata: {name: o, namespace: $NS}\n")
		w.awaitData(t, "inner", map[string]string{"replicas": "5", "image": "x"})
		w.AwaitReady(t, kind, w.ns, "o")
		before := w.in(t, "v1", "inner")

		// Another client's change in the other version stays, and nobody fights over it.
		noError(t, w.patch(t, "v1", "inner", map[string]any{"spec": map[string]any{"probe": "/up"}}))
		w.awaitData(t, "inner", map[string]string{"replicas": "5", "probe": "/up"})
		w.put(t, strings.ReplaceAll(old, "$NAME", "meanwhile"))
		w.AwaitReady(t, w.kind("v1"), w.ns, "meanwhile")
		if after := w.in(t, "v1", "inner"); after.GetGeneration() != before.GetGeneration()+1 {
			t.Errorf("the generation was raised by %d", after.GetGeneration()-before.GetGeneration())
		}
		noError(t, w.apps("v1").Delete(t.Context(), "meanwhile", metav1.DeleteOptions{}))

		w.put(t, outer("v1", "replicas: 2"))
		w.awaitData(t, "inner", map[string]string{"replicas": "2", "probe": "/up"})
		w.AwaitReady(t, kind, w.ns, "o")
		w.Delete(t, kind, w.ns, "o")
		w.AwaitGone(t, w.kind("v1"), w.ns, "inner")
	})

	t.Run("A process that doesn't work answers as well", func(t *testing.T) {
		k, err := cluster.New(cluster.Options{Config: w.config, Workers: 1, Log: logr.Discard()})
		noError(t, err)
		definitions, err := webhook.NewClusterCRDs(k.Client, w.config)
		noError(t, err)
		compiled := webhook.NewConverterCache(definitions)
		converter, err := compiled.ConverterFor(t.Context(), "apps."+w.group, "whatever the API server goes by")
		noError(t, err)
		o, err := converter.Convert(w.in(t, "v1", "a").Object, "v1alpha1")
		noError(t, err)
		if size := spec(&unstructured.Unstructured{Object: o}, "size"); size != "large" {
			t.Errorf("the size is %v", size)
		}
	})

	t.Run("While the webhook is down the stored version is read, and then it heals", func(t *testing.T) {
		w.stop()
		if _, err := w.apps("v1").Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
			t.Errorf("the stored version: %v", err)
		}
		if err := w.patch(t, "v1alpha1", "a", map[string]any{"spec": map[string]any{"image": "4"}}); err == nil {
			t.Error("the instance was changed without conversion")
		}
		w.start(t, true)
		testkit.Poll(t, "the old version is served again", func() bool {
			return w.patch(t, "v1alpha1", "a", map[string]any{"spec": map[string]any{"image": "5"}}) == nil
		})
		w.awaitData(t, "a", map[string]string{"image": "5", "probe": "/up"})
	})

	t.Run("Without a webhook a change says so, and what was published serves on", func(t *testing.T) {
		w.start(t, false)
		w.put(t, definition(strings.Replace(both, "legacy: string,", "legacy: string, more: string,", 1)))
		w.awaitKind(t, "ConversionNotServed", "--webhook-bind-address")
		noError(t, w.patch(t, "v1", "a", map[string]any{"spec": map[string]any{"image": "6"}}))
		w.awaitData(t, "a", map[string]string{"image": "6"})
		w.start(t, true)
		w.AwaitReady(t, rgd, "", w.group)
		testkit.Poll(t, "the new field is served", func() bool {
			return w.patch(t, "v1alpha1", "a", map[string]any{"spec": map[string]any{"more": "m"}}) == nil
		})
		if o := w.in(t, "v1alpha1", "a"); spec(o, "more") != "m" || spec(o, "image") != "6" {
			t.Errorf("in v1alpha1 the instance is %s", testkit.JSON(o))
		}
	})

	t.Run("Instances are deleted in the old version", func(t *testing.T) {
		for _, name := range []string{"a", "b"} {
			noError(t, w.apps("v1alpha1").Delete(t.Context(), name, metav1.DeleteOptions{}))
			w.AwaitGone(t, configMap, w.ns, name)
			w.AwaitGone(t, w.kind("v1"), w.ns, name)
		}
	})
}

type warnings struct {
	mu    sync.Mutex
	texts []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// apps is the client of instances in a version, which discovery need not list yet.
func (w *program) apps(version string) dynamic.ResourceInterface {
	return w.Client.Resource(schema.GroupVersionResource{Group: w.group, Version: version, Resource: "apps"}).Namespace(w.ns)
}
