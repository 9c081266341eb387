// Package webhook tests that the API server refuses to delete what is in use, as the
// whole program has it ask, and what follows from such attempts.
package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/kube/embedded"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/program/webhook"
	"github.com/espalier-dev/espalier/internal/protection"
	"github.com/espalier-dev/espalier/internal/serving/cluster"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

var (
	configMap     = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	usageKind     = usage.Kinds[0]
	refusedKind   = espalier.GroupVersion.WithKind(espalier.RefusedDeletionKind)
	configuration = schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"}
	rgd           = schema.GroupVersionKind{Group: "kro.run", Version: "v1alpha1", Kind: "ResourceGraphDefinition"}
)

// start runs the whole program, with or without a webhook.
func start(t *testing.T, config *rest.Config, hook *webhook.Options) (stop func()) {
	t.Helper()
	ready := make(chan struct{})
	m, err := server.NewManager(server.ManagerOptions{
		Options:  manager.Options{Name: "espalier", Version: "test", Config: config, Log: manager.NewLogger(io.Discard, manager.LogText, 0), HealthAddress: "0", MetricsAddress: "0", Ready: ready},
		Settings: server.Settings{Workers: 8, Usages: true, AllowCRDDeletion: true}, Webhook: hook,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	case <-time.After(time.Minute):
		t.Fatal("not ready")
	}
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

const objects = `
apiVersion: v1
kind: ConfigMap
metadata: {name: used, namespace: $NS}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: using, namespace: $NS}
---
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: uses, namespace: $NS}
spec:
  replayDeletion: REPLAY
  of: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: used}}
  by: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: using}}
`

func apply(t *testing.T, w *testkit.Cluster, ns, text string, pairs ...string) {
	t.Helper()
	w.Apply(t, strings.NewReplacer(append([]string{"$NS", ns}, pairs...)...).Replace(text))
}

func remove(t *testing.T, w *testkit.Cluster, ns, name string, options metav1.DeleteOptions) error {
	t.Helper()
	return w.Resource(t, configMap, ns).Delete(t.Context(), name, options)
}

// refused waits until the API server asks, which reads how to in its own time.
func refused(t *testing.T, w *testkit.Cluster, ns, name string) {
	t.Helper()
	testkit.Poll(t, "a deletion is refused", func() bool {
		return remove(t, w, ns, name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}) != nil
	})
}

func attempt(o *unstructured.Unstructured) string {
	return o.GetAnnotations()["usage.crossplane.io/deletion-attempt-with-policy"]
}

// TestProgram runs the subtests on one program with a webhook.
func TestProgram(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	dir := webhook.Directory(t.TempDir() + "/webhook")
	options := &webhook.Options{
		Address: "127.0.0.1:0", URL: "https://127.0.0.1", Store: dir,
		ClientCA: testkit.ClientCA(t, config), ClientNames: []string{embedded.WebhookClientName},
	}
	stop := start(t, config, options)
	defer func() { stop() }()

	t.Run("What is in use isn't deleted, and then it is", func(t *testing.T) {
		ns := testkit.Namespace(t, config)
		apply(t, w, ns, objects, "REPLAY", "false")
		w.AwaitReady(t, usageKind, ns, "uses")
		refused(t, w, ns, "used")
		if got := attempt(w.Get(t, configMap, ns, "used")); got != "" {
			t.Errorf("a dry run leaves %q", got)
		}
		err := remove(t, w, ns, "used", metav1.DeleteOptions{})
		var status apierrors.APIStatus
		if !errors.As(err, &status) || status.Status().Code != http.StatusConflict {
			t.Fatalf("it answers %v", err)
		}
		for _, text := range []string{"ConfigMap " + ns + "/used", "in use by ConfigMap using", "Usage " + ns + "/uses"} {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%q is not in %q", text, err)
			}
		}
		if got := attempt(w.Get(t, configMap, ns, "used")); got != "Background" {
			t.Errorf("it is noted as %q", got)
		}
		if w.Get(t, refusedKind, "", object.Digest(object.KeyOf(w.Get(t, configMap, ns, "used")))) != nil {
			t.Error("it is recorded for a replay that no usage asks for")
		}
		w.Delete(t, configMap, ns, "using")
		w.AwaitGone(t, usageKind, ns, "uses")
		o := w.Get(t, configMap, ns, "used")
		if o == nil || attempt(o) != "" {
			t.Fatalf("nobody has asked for its deletion to be replayed: %v", o)
		}
		w.Delete(t, configMap, ns, "used")
	})

	t.Run("A refused deletion is replayed as it was asked for", func(t *testing.T) {
		ns := testkit.Namespace(t, config)
		apply(t, w, ns, objects, "REPLAY", "true")
		w.AwaitReady(t, usageKind, ns, "uses")
		// The dependents of the object show the propagation policy.
		used := w.Get(t, configMap, ns, "used")
		part := &unstructured.Unstructured{Object: map[string]any{}}
		part.SetGroupVersionKind(configMap)
		part.SetNamespace(ns)
		part.SetName("part")
		part.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "used", UID: used.GetUID()}})
		if _, err := w.TryApply(t, part); err != nil {
			t.Fatal(err)
		}
		orphan := metav1.DeletePropagationOrphan
		refused(t, w, ns, "used")
		if err := remove(t, w, ns, "used", metav1.DeleteOptions{PropagationPolicy: &orphan}); err == nil {
			t.Fatal("it is not refused")
		}
		record := object.Digest(object.KeyOf(used))
		refused := w.Get(t, refusedKind, "", record)
		if refused == nil {
			t.Fatal("the refused deletion isn't recorded")
		}
		if uid, _, _ := unstructured.NestedString(refused.Object, "spec", "object", "uid"); uid != string(used.GetUID()) {
			t.Errorf("it is recorded for the incarnation %q", uid)
		}
		who, _, _ := unstructured.NestedString(refused.Object, "spec", "user", "username")
		if who == "" {
			t.Error("nobody is recorded as its user")
		}
		w.Delete(t, configMap, ns, "using")
		w.AwaitGone(t, configMap, ns, "used")
		w.AwaitGone(t, usageKind, ns, "uses")
		w.AwaitGone(t, refusedKind, "", record)
		testkit.Poll(t, "an event names the user", func() bool {
			events, err := w.Resource(t, schema.GroupVersionKind{Group: "events.k8s.io", Version: "v1", Kind: "Event"}, ns).List(t.Context(), metav1.ListOptions{})
			return err == nil && slices.ContainsFunc(events.Items, func(e unstructured.Unstructured) bool {
				note, _, _ := unstructured.NestedString(e.Object, "note")
				return e.Object["reason"] == "ReplayDeletion" && strings.Contains(note, "user "+who)
			})
		})
		w.Await(t, configMap, ns, "part", func(o *unstructured.Unstructured) error {
			if o == nil || len(o.GetOwnerReferences()) > 0 {
				return errors.New("it isn't an orphan")
			}
			return nil
		})
	})

	t.Run("Instances with Usages among their parts go", func(t *testing.T) {
		ns, group := testkit.Namespace(t, config), testkit.Group(t)
		uses := func(id, of, by string) string {
			return suite.UsageNode(id, id, "{of: "+suite.UsageRef(of)+", by: "+suite.UsageRef(by)+"}")
		}
		apply(t, w, ns, `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $GROUP}
spec:
  schema: {apiVersion: v1alpha1, kind: App, group: $GROUP}
  resources:
    - {id: a, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}}
    - {id: b, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: b}, data: {of: "${a.metadata.name}"}}}
    - {id: c, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}}`+
			uses("ab", "b", "a")+uses("ac", "a", "c")+uses("ca", "c", "a")+
			suite.UsageNode("whole", "whole", "{reason: because, of: {apiVersion: $GROUP/v1alpha1, kind: App, resourceRef: {name: x}}, by: "+suite.UsageRef("c")+"}"), "$GROUP", group)
		w.AwaitReady(t, rgd, "", group)
		app := schema.GroupVersionKind{Group: group, Version: "v1alpha1", Kind: "App"}
		apply(t, w, ns, "apiVersion: $GROUP/v1alpha1\nkind: App\nmetadata: {name: x, namespace: $NS}\n", "$GROUP", group)
		for _, name := range []string{"ab", "ac", "ca", "whole"} {
			w.AwaitReady(t, usageKind, ns, name)
		}
		if err := remove(t, w, ns, "b", metav1.DeleteOptions{}); err == nil {
			t.Error("b is not in use")
		}
		// Only a child of the instance uses it, which is deleted first anyway.
		w.Delete(t, app, ns, "x")
		w.AwaitGone(t, app, ns, "x")
		for _, name := range []string{"a", "b", "c"} {
			w.AwaitGone(t, configMap, ns, name)
		}
	})

	t.Run("A process that doesn't work answers as well", func(t *testing.T) {
		ns := testkit.Namespace(t, config)
		apply(t, w, ns, objects, "REPLAY", "false")
		w.AwaitReady(t, usageKind, ns, "uses")
		k, err := cluster.New(cluster.Options{Config: config, Workers: 1, Log: logr.Discard()})
		if err != nil {
			t.Fatal(err)
		}
		known := webhook.NewClusterUsages(knowsNothing{}, k.Client, protection.RefusedDeletions{Cluster: k.Client})
		for name, want := range map[string]int{"used": 1, "using": 0} {
			uses, err := known.UsesOf(t.Context(), w.Get(t, configMap, ns, name))
			if err != nil || len(uses) != want {
				t.Errorf("%s: %v, %v", name, uses, err)
			}
		}
	})

	t.Run("It comes back with the same certificate, and goes when nobody serves it", func(t *testing.T) {
		ns := testkit.Namespace(t, config)
		apply(t, w, ns, objects, "REPLAY", "false")
		w.AwaitReady(t, usageKind, ns, "uses")
		before, err := dir.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		stop()
		if err := remove(t, w, ns, "used", metav1.DeleteOptions{}); err == nil {
			t.Error("nobody answers, and it is deleted")
		}
		stop = start(t, config, options)
		testkit.Poll(t, "it is refused for its usage", func() bool {
			err := remove(t, w, ns, "used", metav1.DeleteOptions{})
			return err != nil && strings.HasPrefix(err.Error(), `admission webhook "nousages.protection.crossplane.io" denied the request: `) &&
				strings.Contains(err.Error(), "in use by ConfigMap using")
		})
		if after, err := dir.Load(t.Context()); err != nil || !bytes.Equal(before.Certificate, after.Certificate) {
			t.Errorf("another certificate, or none: %v", err)
		}
		stop()
		stop = start(t, config, nil)
		w.AwaitGone(t, configuration, "", webhook.ConfigurationName)
		testkit.Poll(t, "it is deleted", func() bool {
			err := remove(t, w, ns, "used", metav1.DeleteOptions{})
			return err == nil || apierrors.IsNotFound(err)
		})
	})
}

type knowsNothing struct{}

func (knowsNothing) UsesOf(object.Key) ([]usage.Usage, *plan.Unreadable) { return nil, nil }

// TestASecretIsSharedByProcesses lets several make a certificate at once.
func TestASecretIsSharedByProcesses(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	ns := testkit.Namespace(t, config)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for range 3 {
		k, err := cluster.New(cluster.Options{Config: config, Workers: 1, Log: logr.Discard()})
		if err != nil {
			t.Fatal(err)
		}
		s := &webhook.Server{
			Options: webhook.Options{Address: "127.0.0.1:0", URL: "https://127.0.0.1", Namespace: ns},
			Cluster: k.Client, Usages: webhook.NewClusterUsages(knowsNothing{}, k.Client, protection.RefusedDeletions{Cluster: k.Client}), Now: time.Now, Log: logr.Discard(),
		}
		all.Go(func() { _ = s.Run(ctx) })
	}
	w := testkit.NewCluster(t, config)
	w.Await(t, schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, ns, "espalier-webhook", func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("isn't there")
		}
		if data, _, _ := unstructured.NestedStringMap(o.Object, "data"); len(data) != 3 {
			return fmt.Errorf("has %d files", len(data))
		}
		return nil
	})
	w.Await(t, configuration, "", webhook.ConfigurationName, func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("isn't there")
		}
		return nil
	})
	w.Delete(t, configuration, "", webhook.ConfigurationName)
}
