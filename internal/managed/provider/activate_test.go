package provider_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/managed/provider"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/cluster"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
	"github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

var (
	activations = schema.GroupVersionKind{Group: "cloud.example.org", Version: "v1", Kind: "Activation"}
	configs     = schema.GroupVersionKind{Group: "cloud.example.org", Version: "v1", Kind: "Config"}
)

const kubeSystem = "{apiVersion: v1, kind: Namespace, metadata: {name: kube-system, uid: installation}}"

// crd returns a CustomResourceDefinition.
func crd(gvk schema.GroupVersionKind, clusterScoped bool) *apiextensionsv1.CustomResourceDefinition {
	c := &apiextensionsv1.CustomResourceDefinition{}
	c.APIVersion, c.Kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
	plural := strings.ToLower(gvk.Kind) + "s"
	c.Name = plural + "." + gvk.Group
	c.Spec.Group, c.Spec.Scope = gvk.Group, apiextensionsv1.NamespaceScoped
	if clusterScoped {
		c.Spec.Scope = apiextensionsv1.ClusterScoped
	}
	c.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Kind: gvk.Kind, ListKind: gvk.Kind + "List", Plural: plural, Singular: strings.ToLower(gvk.Kind)}
	preserve := true
	c.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{
		Name: gvk.Version, Served: true, Storage: true, Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve}},
	}}
	return c
}

// catalog has the types net::T0, net::T1 and so on, whose external resources are in things.
type catalog struct {
	types int

	mu     sync.Mutex
	things map[string]string // the marks, by name
}

func (c *catalog) names() []string {
	var out []string
	for i := range c.types {
		out = append(out, fmt.Sprintf("net::T%d", i))
	}
	return out
}

func (c *catalog) Match(pattern string) ([]string, error) {
	prefix, wildcard := strings.CutSuffix(pattern, "*")
	return slices.DeleteFunc(c.names(), func(name string) bool {
		return name != pattern && (!wildcard || !strings.HasPrefix(name, prefix))
	}), nil
}

func (c *catalog) TypeOf(kind schema.GroupKind) (string, bool, bool) {
	name, clusterScoped := strings.CutPrefix(kind.Kind, "Cluster")
	return "net::" + name, clusterScoped, kind.Group == "net.cloud.example.org" && slices.Contains(c.names(), "net::"+name)
}

func (c *catalog) Open(name string, clusterScoped bool) (managed.Kind, *apiextensionsv1.CustomResourceDefinition, error) {
	gvk := schema.GroupVersionKind{Group: "net.cloud.example.org", Version: "v1", Kind: strings.TrimPrefix(name, "net::")}
	if clusterScoped {
		gvk.Kind = "Cluster" + gvk.Kind
	}
	kind := managed.For(managed.Definition[*unstructured.Unstructured]{
		Kind: gvk, New: func() *unstructured.Unstructured { return &unstructured.Unstructured{} },
		Caps: func() external.Caps { return external.Caps{Marked: true} },
		Connect: func(context.Context, managed.Objects, *unstructured.Unstructured) (managed.Client[*unstructured.Unstructured], error) {
			return client{c}, nil
		},
	})
	return kind, crd(gvk, clusterScoped), nil
}

// client creates and deletes things.
type client struct{ *catalog }

type thing = *unstructured.Unstructured

func (c client) Identify(m thing) (external.Key, error) {
	return external.Key{Type: m.GetKind(), Name: m.GetName()}, nil
}

func (c client) Observe(_ context.Context, _ thing, ref external.Ref) (external.Observation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	mark, ok := c.things[string(ref)]
	if !ok {
		return external.Observation{Presence: external.Absent}, nil
	}
	return external.Observation{Presence: external.Present, Ref: ref, Mark: &external.Mark{ID: mark}, UpToDate: external.Yes, Ready: external.Yes}, nil
}

func (c client) Find(context.Context, thing, external.Key, external.Mark) ([]external.Observation, error) {
	return nil, errors.New("not called")
}

func (c client) Prepare(thing, external.Verb, external.Observation) (external.Request, error) {
	return external.Request("{}"), nil
}

func (c client) Begin(_ context.Context, _ thing, i external.Intent) (external.Op, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i.Verb == external.Delete {
		delete(c.things, string(i.Ref))
		return external.Op{Done: true, Ref: i.Ref}, nil
	}
	c.things[i.Key.Name] = i.Mark.ID
	return external.Op{Done: true, Ref: external.Ref(i.Key.Name)}, nil
}

func (c client) Poll(_ context.Context, _ thing, op external.Op) (external.Op, error) {
	return op, nil
}

// world is a cluster with a provider that has a catalog.
type world struct {
	*fakekube.Cluster
	*catalog
	running *cluster.Cluster
	// configs: the provider has configurations.
	configs bool
}

func newWorld(types int, objects ...string) *world {
	return &world{Cluster: fakekube.New(append(objects, kubeSystem)...), catalog: &catalog{types: types, things: map[string]string{}}}
}

func (w *world) provider() managed.Provider {
	raw, err := yaml.Marshal(crd(activations, true))
	if err != nil {
		panic(err)
	}
	p := managed.Provider{Name: "cloud", CRDs: fstest.MapFS{"activations.yaml": {Data: raw}}, Catalog: w.catalog, Activations: activations}
	if w.configs {
		if raw, err = yaml.Marshal(crd(configs, true)); err != nil {
			panic(err)
		}
		p.Configs, p.CRDs = []schema.GroupVersionKind{configs}, fstest.MapFS{"activations.yaml": p.CRDs.(fstest.MapFS)["activations.yaml"], "configs.yaml": {Data: raw}}
	}
	return p
}

// start runs the controllers with a connection until stop.
func (w *world) start(tb testing.TB, config *rest.Config) (stop func()) {
	tb.Helper()
	providers := []managed.Provider{w.provider()}
	k, err := cluster.New(cluster.Options{
		Config: config, Workers: 4, Log: logr.Discard(), ExtraCRDs: cluster.InstallAlways(provider.CRDs(providers)),
		CRDDependents: func(c *apiextensionsv1.CustomResourceDefinition) []object.Key {
			return provider.Dependents(providers, c)
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	w.running = k
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- k.Run(ctx, func(ctx context.Context) error {
			return provider.Start(ctx, k, provider.Options{Providers: providers, Events: events{}, Now: time.Now, PollInterval: time.Hour})
		})
	}()
	return func() {
		cancel()
		if err := <-ended; err != nil && config.Host == "" {
			tb.Error(err)
		}
	}
}

func activate(patterns ...string) *unstructured.Unstructured {
	return fakekube.Parse("{apiVersion: cloud.example.org/v1, kind: Activation, metadata: {name: all}, spec: {types: [" + quoted(patterns) + "]}}")
}

func onDemand(patterns ...string) *unstructured.Unstructured {
	return fakekube.Parse("{apiVersion: cloud.example.org/v1, kind: Activation, metadata: {name: all}, spec: {onDemand: [" + quoted(patterns) + "]}}")
}

func quoted(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return `"` + strings.Join(all, `", "`) + `"`
}

var (
	activationKey = object.Key{Group: activations.Group, Kind: activations.Kind, Name: "all"}
	thingKey      = object.Key{Group: "net.cloud.example.org", Kind: "T1", Namespace: "prod", Name: "x"}
)

func thingObject() *unstructured.Unstructured {
	return fakekube.Parse("{apiVersion: net.cloud.example.org/v1, kind: T1, metadata: {name: x, namespace: prod}, spec: {}}")
}

// edit changes the spec of the activation.
func (w *world) edit(spec map[string]any) {
	w.Change(activationKey, func(o *unstructured.Unstructured) { o.Object["spec"] = spec })
}

func (w *world) remove(key object.Key) {
	w.Change(key, func(o *unstructured.Unstructured) {
		o.SetDeletionTimestamp(&someTime)
	})
}

// ready is the condition Ready of an object.
func (w *world) ready(key object.Key) string {
	o := w.Object(key)
	if o == nil {
		return "gone"
	}
	c, _ := condition.Read(o).Get(resource.Ready)
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

// installed are the names of the CustomResourceDefinitions of the catalog.
func (w *world) installed() string {
	var out []string
	for _, key := range w.Keys() {
		if name, ok := strings.CutSuffix(key.Name, ".net.cloud.example.org"); ok && key.Kind == "CustomResourceDefinition" {
			out = append(out, name)
		}
	}
	return strings.Join(out, " ")
}

// sinceWithoutWatches returns the requests after the first n, without watches: each ends after some minutes, and is
// opened again.
func (w *world) sinceWithoutWatches(n int) []string {
	return slices.DeleteFunc(slices.Clone(w.RequestsSoFar()[n:]), func(request string) bool { return strings.HasPrefix(request, "watch ") })
}

// watched are the kinds of the catalog that are watched.
func (w *world) watched() string {
	var out []string
	for _, s := range w.running.Hub.Stats() {
		if s.Kind.Group == "net.cloud.example.org" {
			out = append(out, s.Kind.Kind)
		}
	}
	return strings.Join(out, " ")
}

var someTime = metav1.Unix(0, 0)

// events discards events.
type events struct{}

func (events) Event(k8sruntime.Object, telemetry.Severity, string, string) {}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// check compares what a step of a test leaves.
func check(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// inBubble counts the goroutines of synctest's bubble. The runtime starts and ends others at any time.
func inBubble() int {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return bytes.Count(stacks, []byte("synctest bubble "))
}

// TestAKindIsServedWhileItIsActivated activates kinds, creates an object, deactivates the kinds and
// deletes the object.
func TestAKindIsServedWhileItIsActivated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(3)
		stop := w.start(t, w.Config())
		defer stop()
		pass(time.Minute)
		check(t, "installed at first", w.installed(), "")
		goroutines := inBubble()

		w.Add(activate("net::*"))
		pass(time.Second)
		check(t, "installed", w.installed(), "t0s t1s t2s")
		check(t, "Ready", w.ready(activationKey), "True Active: 3 kinds are served")
		check(t, "watched", w.watched(), "T0 T1 T2")
		w.Add(thingObject())
		pass(time.Second)
		check(t, "the object", w.ready(thingKey), "True Available: ")
		requests := len(w.RequestsSoFar())
		pass(20 * time.Minute)
		if all := w.sinceWithoutWatches(requests); len(all) > 0 {
			t.Errorf("at rest, there are requests: %v", all)
		}

		w.edit(map[string]any{})
		pass(time.Second)
		check(t, "installed while an object exists", w.installed(), "t1s")
		check(t, "Ready while an object exists", w.ready(activationKey),
			"True Active: 0 kinds are served; no longer activated: net::T1: 1 object of kind T1 exists: delete or orphan it first")
		w.remove(thingKey)
		pass(time.Minute)
		check(t, "the object that is deleted", w.ready(thingKey), "gone")
		check(t, "installed at the end", w.installed(), "")
		check(t, "Ready at the end", w.ready(activationKey), "True Active: 0 kinds are served")
		if len(w.things) > 0 {
			t.Errorf("%v are left", w.things)
		}

		pass(2 * time.Hour)
		check(t, "watched at the end", w.watched(), "")
		if got := inBubble(); got > goroutines {
			t.Errorf("there were %d goroutines before the kinds were served, and %d are left", goroutines, got)
		}
		w.remove(activationKey)
		pass(time.Second)
		check(t, "the activation", w.ready(activationKey), "gone")
	})
}

// TestADeletedActivationWaitsForItsKinds deletes an activation while an object exists, and restarts
// the program.
func TestADeletedActivationWaitsForItsKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(2)
		stop := w.start(t, w.Config())
		w.Add(activate("net::T1"))
		pass(time.Second)
		w.Add(thingObject())
		pass(time.Second)
		w.remove(activationKey)
		pass(time.Second)
		check(t, "Ready", w.ready(activationKey), "False Deleting: no longer activated: net::T1: 1 object of kind T1 exists: delete or orphan it first")
		stop()

		stop = w.start(t, w.Config())
		defer stop()
		pass(time.Second)
		w.remove(thingKey)
		pass(time.Minute)
		check(t, "the activation", w.ready(activationKey), "gone")
		check(t, "installed", w.installed(), "")
	})
}

// TestAKindOfAnotherProgramIsLeftAlone activates a kind whose CustomResourceDefinition exists.
func TestAKindOfAnotherProgramIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(2)
		foreign := fakekube.Parse(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: t1s.net.cloud.example.org},
  spec: {group: net.cloud.example.org, scope: Namespaced, names: {kind: T1, plural: t1s}, versions: [{name: v1, served: true, storage: true}]},
  status: {conditions: [{type: Established, status: "True"}]}}`)
		w.Add(foreign)
		stop := w.start(t, w.Config())
		defer stop()
		w.Add(activate("net::*"))
		pass(time.Second)
		check(t, "Ready", w.ready(activationKey),
			"False Conflict: net::T1: CustomResourceDefinition t1s.net.cloud.example.org exists, and another program has installed it; delete it if nothing uses it")
		check(t, "watched", w.watched(), "T0")
		if got := w.Object(object.KeyOf(foreign)); len(got.GetLabels()) > 0 || len(got.GetAnnotations()) > 0 {
			t.Errorf("it was changed: %v", got)
		}
		w.Remove(object.KeyOf(foreign))
		pass(time.Second)
		check(t, "Ready without it", w.ready(activationKey), "True Active: 2 kinds are served")
	})
}

// TestADefinitionActivatesAKind names a kind in a definition whose own kind appears late.
func TestADefinitionActivatesAKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(2)
		stop := w.start(t, w.Config())
		defer stop()
		w.Add(onDemand("net::*"))
		pass(time.Second)
		check(t, "Ready", w.ready(activationKey), "True Active: 0 kinds are served")
		graphs := crd(schema.GroupVersionKind{Group: "kro.run", Version: "v1alpha1", Kind: "ResourceGraphDefinition"}, true)
		raw, err := yaml.Marshal(graphs)
		if err != nil {
			t.Fatal(err)
		}
		w.Add(fakekube.Parse(strings.Replace(string(raw), "status:", "ignored:", 1) + "\nstatus: {conditions: [{type: Established, status: 'True'}]}"))
		definition := fakekube.Parse(`{apiVersion: kro.run/v1alpha1, kind: ResourceGraphDefinition, metadata: {name: app, generation: 1},
  spec: {resources: [{id: x, template: {apiVersion: net.cloud.example.org/v1, kind: T1}}]}}`)
		w.Add(definition)
		pass(time.Second)
		check(t, "installed", w.installed(), "t1s")
		check(t, "Ready", w.ready(activationKey), "True Active: 1 kind is served")
		pass(time.Minute)
		requests := len(w.RequestsSoFar())
		pass(20 * time.Minute)
		if all := w.sinceWithoutWatches(requests); len(all) > 0 {
			t.Errorf("at rest, there are requests: %v", all)
		}
		w.Remove(object.KeyOf(definition))
		pass(time.Second)
		check(t, "installed without the definition", w.installed(), "")
	})
}

// TestAConfigurationIsKeptForActivatedKinds deletes a configuration that an object of an activated
// kind refers to, and restarts the program.
func TestAConfigurationIsKeptForActivatedKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(2)
		w.configs = true
		stop := w.start(t, w.Config())
		w.Add(activate("net::*"))
		w.Add(fakekube.Parse("{apiVersion: cloud.example.org/v1, kind: Config, metadata: {name: default}}"))
		pass(time.Second)
		w.Add(thingObject())
		pass(time.Second)
		key := object.Key{Group: configs.Group, Kind: configs.Kind, Name: "default"}
		w.remove(key)
		pass(time.Second)
		stop()
		stop = w.start(t, w.Config())
		defer stop()
		pass(time.Second)
		if o := w.Object(key); o == nil {
			t.Error("the configuration is gone")
		} else if message, _, _ := unstructured.NestedString(o.Object, "status", "message"); !strings.Contains(message, "T1 prod/x") {
			t.Errorf("its message is %q", message)
		}
		w.remove(thingKey)
		pass(time.Minute)
		if w.Object(key) != nil {
			t.Error("the configuration is left")
		}
	})
}

func TestTheRemedyForAKindThatIsNotActivated(t *testing.T) {
	w := newWorld(2)
	providers := []managed.Provider{{Name: "other"}, w.provider()}
	want := "it continues when net::T1 is activated: espalier cloud activate net::T1, or allow it in spec.onDemand of Activation"
	check(t, "of the catalog", provider.Remedy(providers, schema.GroupKind{Group: "net.cloud.example.org", Kind: "T1"}), want)
	check(t, "of no catalog", provider.Remedy(providers, schema.GroupKind{Group: "apps", Kind: "Deployment"}), "")
}

// TestActivationSurvivesCrashes crashes the program after each of its writes.
func TestActivationSurvivesCrashes(t *testing.T) {
	writes := 0
	for n := 0; n <= writes; n++ {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(2)
			crash := testkit.NewCrash(n)
			stop := crash.RunAndRestart(w.Config(), func(config *rest.Config) func() { return w.start(t, config) })
			defer stop()
			w.Add(activate("net::*"))
			pass(time.Minute)
			check(t, fmt.Sprintf("after a crash at write %d: installed", n), w.installed(), "t0s t1s")
			check(t, fmt.Sprintf("after a crash at write %d: Ready", n), w.ready(activationKey), "True Active: 2 kinds are served")
			w.edit(map[string]any{"types": []any{"net::T0"}})
			pass(time.Minute)
			check(t, fmt.Sprintf("after a crash at write %d: installed after deactivation", n), w.installed(), "t0s")
			w.remove(activationKey)
			pass(time.Minute)
			check(t, fmt.Sprintf("after a crash at write %d: installed at the end", n), w.installed(), "")
			check(t, fmt.Sprintf("after a crash at write %d: the activation", n), w.ready(activationKey), "gone")
			if n == 0 {
				writes = crash.Writes()
				t.Logf("%d writes", writes)
			}
		})
	}
}

// TestTwoProcessesConverge runs two processes without leader election.
func TestTwoProcessesConverge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(3)
		defer w.start(t, w.Config())()
		defer w.start(t, w.Config())()
		w.Add(activate("net::*"))
		pass(time.Minute)
		check(t, "installed", w.installed(), "t0s t1s t2s")
		check(t, "Ready", w.ready(activationKey), "True Active: 3 kinds are served")
		w.edit(map[string]any{"types": []any{"net::T1"}})
		pass(time.Minute)
		check(t, "installed after deactivation", w.installed(), "t1s")
	})
}

// TestAKindThatCannotBeInstalledDoesNotKeepOthersBack refuses one CustomResourceDefinition for a while.
func TestAKindThatCannotBeInstalledDoesNotKeepOthersBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(30)
		stop := w.start(t, w.Config())
		defer stop()
		pass(time.Second)
		w.SetBefore(func(request string) error {
			if strings.HasPrefix(request, "apply CustomResourceDefinition t0s.") {
				return apierrors.NewBadRequest("refused by a test")
			}
			return nil
		})
		w.Add(activate("net::*"))
		pass(time.Minute)
		check(t, "Ready", w.ready(activationKey),
			"False InstallationFailed: net::T0: install CustomResourceDefinition t0s.net.cloud.example.org: refused by a test")
		if n := len(strings.Fields(w.watched())); n != 29 {
			t.Errorf("%d kinds are watched", n)
		}
		w.SetBefore(nil)
		pass(time.Hour)
		check(t, "Ready at the end", w.ready(activationKey), "True Active: 30 kinds are served")
	})
}

// TestAnObjectThatIsCreatedDuringADeactivationKeepsItsKind creates an object right before the API
// server is asked whether there are any.
func TestAnObjectThatIsCreatedDuringADeactivationKeepsItsKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(2)
		stop := w.start(t, w.Config())
		defer stop()
		w.Add(activate("net::T1"))
		pass(time.Minute)
		var once sync.Once
		w.SetBefore(func(request string) error {
			if strings.HasPrefix(request, "list T1") {
				once.Do(func() { w.Add(thingObject()) })
			}
			return nil
		})
		w.edit(map[string]any{})
		pass(time.Minute)
		check(t, "installed", w.installed(), "t1s")
		check(t, "Ready", w.ready(activationKey),
			"True Active: 0 kinds are served; no longer activated: net::T1: 1 object of kind T1 exists: delete or orphan it first")
		w.remove(thingKey)
		pass(time.Minute)
		check(t, "installed without the object", w.installed(), "")
	})
}
