// Package suite gives tests of the engine a corner of a real API server where the
// controllers run: all tests of a package share one set, each with kinds and a
// namespace of its own.
package suite

import (
	"context"
	"fmt"
	"os"
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
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"

	"github.com/espalier-dev/espalier/internal/server"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/testkit"
)

// shared are the controllers that all tests of a package use.
var shared struct {
	once    sync.Once
	options server.Options
	prepare func(*testing.T, *testkit.World)
	stop    func()
	err     error
}

// Main runs a package's tests with controllers that have the given options, on top
// of what a test needs. Prepare, if there is one, is done before they start.
func Main(m *testing.M, options server.Options, prepare func(*testing.T, *testkit.World)) int {
	shared.options, shared.prepare, shared.stop = options, prepare, func() {}
	testkit.AtExit(func() { shared.stop() })
	return testkit.Main(m)
}

// Suite is a test's own corner of the shared cluster.
type Suite struct {
	*testkit.World
	Config *rest.Config
	// Group is of the kinds that the test defines, NS where it puts objects.
	Group, NS string
}

// Begin returns a corner of the cluster with the controllers running; the test
// runs beside others.
func Begin(t *testing.T) Suite {
	t.Helper()
	t.Parallel()
	return Alone(t)
}

// Alone is Begin for a test that measures, and runs while no other does.
func Alone(t *testing.T) Suite {
	t.Helper()
	config := testkit.Exclusive(t)
	shared.once.Do(func() { start(t, config) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	s := Suite{World: testkit.NewWorld(t, config), Config: config, Group: testkit.Group(t), NS: testkit.Namespace(t, config)}
	t.Cleanup(func() {
		if t.Failed() {
			s.dump(t)
		}
	})
	return s
}

// start runs the controllers, as the user whom the options' configuration
// impersonates, and through its transport, if it says so.
func start(t *testing.T, config *rest.Config) {
	t.Helper()
	if shared.prepare != nil {
		shared.prepare(t, testkit.NewWorld(t, config))
	}
	options := shared.options
	if os.Getenv("ESPALIER_TEST_LOG") != "" {
		options.Log = funcr.New(func(prefix, args string) { fmt.Fprintln(os.Stderr, time.Now().Format("15:04:05.000"), prefix, args) }, funcr.Options{Verbosity: 1})
	}
	ctx, cancel := context.WithCancel(context.Background())
	recorder, err := recording(ctx, kubernetes.NewForConfigOrDie(config))
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
	c, err := launch(options)
	if err != nil {
		cancel()
		shared.err = err
		return
	}
	shared.stop = func() { _ = c.Stop(); cancel() }
}

// dump prints the test's definitions and instances with their conditions.
func (s Suite) dump(t *testing.T) {
	ctx := context.Background()
	definitions, err := s.Client.Resource(RGD.GroupVersion().WithResource("resourcegraphdefinitions")).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Log(err)
		return
	}
	for i := range definitions.Items {
		d := &definitions.Items[i]
		if group, _, _ := unstructured.NestedString(d.Object, "spec", "schema", "group"); group != s.Group {
			continue
		}
		t.Logf("%s\n%s", d.GetName(), testkit.Show(&unstructured.Unstructured{Object: map[string]any{"status": d.Object["status"]}}))
		kind, _, _ := unstructured.NestedString(d.Object, "spec", "schema", "kind")
		list, err := s.Client.Resource(schema.GroupVersionResource{Group: s.Group, Version: "v1alpha1", Resource: strings.ToLower(kind) + "s"}).List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Log(err)
			continue
		}
		for j := range list.Items {
			t.Log(testkit.Show(&list.Items[j]))
		}
	}
}

// recording returns a recorder that writes real events.
func recording(ctx context.Context, client kubernetes.Interface) (telemetry.Recorder, error) {
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return nil, err
	}
	return telemetry.NewRecorder(broadcaster.NewRecorder(runtime.NewScheme(), "espalier")), nil
}

// Text fills in the test's group and namespace.
func (s Suite) Text(yaml string) string {
	return strings.NewReplacer("$GROUP", s.Group, "$NS", s.NS, "$ID", strings.SplitN(s.Group, ".", 2)[0]).Replace(yaml)
}

// Put applies a text with $GROUP, $NS and $ID filled in; $ID is a unique
// prefix for names of cluster-scoped objects.
func (s Suite) Put(t *testing.T, yaml string) {
	t.Helper()
	s.Apply(t, s.Text(yaml))
}

// Kind is one of the test's own kinds.
func (s Suite) Kind(name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: s.Group, Version: "v1alpha1", Kind: name}
}

// Name is the name of a cluster-scoped object of the test's.
func (s Suite) Name(name string) string { return s.Text("$ID-" + name) }

// Active waits until definitions serve.
func (s Suite) Active(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		s.AwaitReady(t, RGD, "", s.Name(name))
	}
}

// AwaitEvent waits for an event about an object of a name.
func (s Suite) AwaitEvent(t *testing.T, about, reason string, contains ...string) {
	t.Helper()
	s.awaitEvent(t, s.NS, func(_, name string) bool { return name == about }, about, reason, contains)
}

// AwaitEventOn waits for an event about this very object; events about objects of no
// namespace are in the namespace default.
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
	err := testkit.AwaitAny(t.Context(), s.Of(t, kind, namespace), metav1.ListOptions{}, func(objects map[string]*unstructured.Unstructured) error {
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
