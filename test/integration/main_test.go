// Package integration tests the engine as its users meet it: on a real API
// server, through what is applied and what then shows. All tests share one set
// of controllers and run in parallel, each with kinds and a namespace of its own.
package integration

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"

	"github.com/espalier-dev/espalier/internal/server"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/testkit"
)

func TestMain(m *testing.M) {
	testkit.AtExit(func() { shared.stop() })
	os.Exit(testkit.Main(m))
}

// shared are the controllers that all tests of the package use.
var shared struct {
	once sync.Once
	stop func()
	err  error
}

func init() { shared.stop = func() {} }

// suite is a test's own corner of the shared cluster.
type suite struct {
	*testkit.World
	// group is of the kinds that the test defines, ns where it puts objects.
	group, ns string
}

// begin returns a corner of the cluster with the controllers running.
func begin(t *testing.T) suite {
	t.Helper()
	t.Parallel()
	config := testkit.Exclusive(t)
	shared.once.Do(func() {
		log := logr.Discard()
		if os.Getenv("ESPALIER_TEST_LOG") != "" {
			log = funcr.New(func(prefix, args string) { fmt.Fprintln(os.Stderr, time.Now().Format("15:04:05.000"), prefix, args) }, funcr.Options{Verbosity: 1})
		}
		ctx, cancel := context.WithCancel(context.Background())
		var recorder telemetry.Recorder
		if recorder, shared.err = recording(ctx, kubernetes.NewForConfigOrDie(config)); shared.err != nil {
			cancel()
			return
		}
		var c *server.Controllers
		if c, shared.err = server.NewControllers(server.Options{Config: config, Workers: 8, Version: "test", Log: log, Events: recorder, AllowCRDDeletion: true}); shared.err != nil {
			cancel()
			return
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = c.Run(ctx)
		}()
		shared.stop = func() { cancel(); <-done }
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	s := suite{World: testkit.NewWorld(t, config), group: testkit.Group(t), ns: testkit.Namespace(t, config)}
	t.Cleanup(func() {
		if t.Failed() {
			s.dump(t)
		}
	})
	return s
}

// dump prints the test's definitions and instances with their conditions.
func (s suite) dump(t *testing.T) {
	ctx := context.Background()
	definitions, err := s.Client.Resource(rgd.GroupVersion().WithResource("resourcegraphdefinitions")).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Log(err)
		return
	}
	for i := range definitions.Items {
		d := &definitions.Items[i]
		if group, _, _ := unstructured.NestedString(d.Object, "spec", "schema", "group"); group != s.group {
			continue
		}
		t.Logf("%s\n%s", d.GetName(), testkit.Show(&unstructured.Unstructured{Object: map[string]any{"status": d.Object["status"]}}))
		kind, _, _ := unstructured.NestedString(d.Object, "spec", "schema", "kind")
		list, err := s.Client.Resource(schema.GroupVersionResource{Group: s.group, Version: "v1alpha1", Resource: strings.ToLower(kind) + "s"}).List(ctx, metav1.ListOptions{})
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

// text fills in the test's group and namespace.
func (s suite) text(yaml string) string {
	return strings.NewReplacer("$GROUP", s.group, "$NS", s.ns, "$ID", strings.SplitN(s.group, ".", 2)[0]).Replace(yaml)
}

// apply applies a text with $GROUP, $NS and $ID filled in; $ID is a unique
// prefix for names of cluster-scoped objects.
func (s suite) apply(t *testing.T, yaml string) {
	t.Helper()
	s.Apply(t, s.text(yaml))
}

// kind is one of the test's own kinds.
func (s suite) kind(name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: s.group, Version: "v1alpha1", Kind: name}
}

// name is the name of a cluster-scoped object of the test's.
func (s suite) name(name string) string { return s.text("$ID-" + name) }

// active waits until definitions serve.
func (s suite) active(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		s.AwaitReady(t, rgd, "", s.name(name))
	}
}

var (
	rgd       = schema.GroupVersionKind{Group: "kro.run", Version: "v1alpha1", Kind: "ResourceGraphDefinition"}
	rg        = schema.GroupVersionKind{Group: "kro.run", Version: "v1alpha1", Kind: "ResourceGroup"}
	crdKind   = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	configMap = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
)
