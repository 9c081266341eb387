package watch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit"
)

const (
	manager = "kro.run/applyset"
	limit   = 20 * time.Second // for what takes milliseconds on an idle machine
)

// live is a hub on a real API server, in a namespace and a group of its own.
type live struct {
	*Hub
	wakeups   wakeups
	namespace string
	group     string
	admin     dynamic.Interface // not the hub's user
	crds      apiextensions.Interface
	discover  *discovery.DiscoveryClient
	requests  rest.Interface
}

// enqueued is a call of Config.Enqueue.
type enqueued struct {
	to Subscriber
	Cause
}

// wakeups collects wake-ups for tests that wait for them.
type wakeups struct {
	mu      sync.Mutex
	events  []enqueued
	arrived chan struct{}
}

func (m *wakeups) enqueue(s Subscriber, c Cause) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, enqueued{s, c})
	close(m.arrived)
	m.arrived = make(chan struct{})
}

// await waits for an event that matches and forgets it and all before it.
func (m *wakeups) await(t testing.TB, what string, match func(enqueued) bool) enqueued {
	t.Helper()
	late := time.NewTimer(limit)
	defer late.Stop()
	for {
		m.mu.Lock()
		i, arrived := slices.IndexFunc(m.events, match), m.arrived
		if i >= 0 {
			found := m.events[i]
			m.events = m.events[i+1:]
			m.mu.Unlock()
			return found
		}
		m.mu.Unlock()
		select {
		case <-arrived:
		case <-late.C:
			t.Fatalf("no wake-up for %s", what)
		}
	}
}

// awaitBoth waits for an event to each of the subscribers one and two.
func (m *wakeups) awaitBoth(t testing.TB, what string, match func(enqueued) bool) {
	t.Helper()
	got := map[Subscriber]bool{}
	for !got[subscriberOf("one")] || !got[subscriberOf("two")] {
		got[m.await(t, what, match).to] = true
	}
}

func (m *wakeups) take() []enqueued {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.events
	m.events = nil
	return all
}

// onServer starts a hub that acts as the given user, or as administrator.
func onServer(t testing.TB, user string) *live {
	t.Helper()
	config := testkit.Server(t)
	l := &live{wakeups: wakeups{arrived: make(chan struct{})}, namespace: testkit.Namespace(t, config), group: testkit.Group(t)}
	client, err := rest.HTTPClientFor(config)
	must(t, err)
	t.Cleanup(client.CloseIdleConnections)
	l.admin, err = dynamic.NewForConfigAndClient(config, client)
	must(t, err)
	l.crds, err = apiextensions.NewForConfigAndClient(config, client)
	must(t, err)
	l.discover, err = discovery.NewDiscoveryClientForConfigAndClient(config, client)
	must(t, err)
	l.requests = l.discover.RESTClient()

	config.Impersonate.UserName = user
	client, err = rest.HTTPClientFor(config)
	must(t, err)
	t.Cleanup(client.CloseIdleConnections)
	restricted, err := dynamic.NewForConfigAndClient(config, client)
	must(t, err)
	l.Hub = New(Config{
		Client: restricted, Resolve: l.resolve, Enqueue: l.wakeups.enqueue,
		ManagedLabel: partOf, FieldManager: manager, Grace: 50 * time.Millisecond,
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- l.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return l
}

func (l *live) resolve(_ context.Context, gvk schema.GroupVersionKind) (Resource, error) {
	served, err := l.discover.ServerResourcesForGroupVersion(gvk.GroupVersion().String())
	if err != nil {
		return Resource{}, err
	}
	for _, r := range served.APIResources {
		if r.Kind == gvk.Kind && !strings.Contains(r.Name, "/") {
			return Resource{gvk.GroupVersion().WithResource(r.Name), r.Namespaced}, nil
		}
	}
	return Resource{}, &UnavailableError{Reason: WaitingForKind, Message: "no " + gvk.Kind, Gone: true}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (l *live) kind(version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: l.group, Version: version, Kind: "Vpc"}
}

// install serves the kind Vpc in these versions, and returns when that is so.
func (l *live) install(t testing.TB, versions ...string) {
	t.Helper()
	open := true
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "vpcs." + l.group}}
	crd.Spec.Group, crd.Spec.Scope = l.group, apiextensionsv1.NamespaceScoped
	crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "vpcs", Singular: "vpc", Kind: "Vpc", ListKind: "VpcList"}
	for i, version := range versions {
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: version, Served: true, Storage: i == 0,
			Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &open},
			},
		})
	}
	definitions := l.crds.ApiextensionsV1().CustomResourceDefinitions()
	_, err := definitions.Create(t.Context(), crd, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		err := definitions.Delete(context.Background(), crd.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	l.poll(t, "the kind to be established", func(ctx context.Context) bool {
		now, err := definitions.Get(ctx, crd.Name, metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(now.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
		})
	})
}

// uninstall deletes the kind, and returns when it is gone.
func (l *live) uninstall(t testing.TB) {
	t.Helper()
	definitions := l.crds.ApiextensionsV1().CustomResourceDefinitions()
	must(t, definitions.Delete(t.Context(), "vpcs."+l.group, metav1.DeleteOptions{}))
	l.poll(t, "the kind to go", func(ctx context.Context) bool {
		_, err := definitions.Get(ctx, "vpcs."+l.group, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

func (l *live) poll(t testing.TB, what string, done func(context.Context) bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, limit, true,
		func(ctx context.Context) (bool, error) { return done(ctx), nil })
	if err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

// apply writes an object of the hub's kinds as its field manager does.
func (l *live) apply(t testing.TB, gvr schema.GroupVersionResource, o *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	o = o.DeepCopy()
	o.SetNamespace(l.namespace)
	o.SetResourceVersion("")
	o.SetUID("")
	raw, err := o.MarshalJSON()
	must(t, err)
	force := true
	// The API server may take a moment to serve a kind that is established.
	var out *unstructured.Unstructured
	l.poll(t, "the kind to be served", func(ctx context.Context) bool {
		out, err = l.admin.Resource(gvr).Namespace(l.namespace).Patch(ctx, o.GetName(), types.ApplyPatchType, raw,
			metav1.PatchOptions{FieldManager: manager, Force: &force})
		return !apierrors.IsNotFound(err)
	})
	must(t, err)
	return out
}

// openWatches counts watches of a resource as the API server sees them.
func (l *live) openWatches(t testing.TB, resource string) int {
	t.Helper()
	raw, err := l.requests.Get().AbsPath("/metrics").DoRaw(t.Context())
	must(t, err)
	total := 0.0
	for line := range strings.SplitSeq(string(raw), "\n") {
		if strings.HasPrefix(line, "apiserver_longrunning_requests{") &&
			strings.Contains(line, fmt.Sprintf("resource=%q", resource)) && strings.Contains(line, `verb="WATCH"`) {
			var n float64
			if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &n); err == nil {
				total += n
			}
		}
	}
	return int(total)
}

// want commits a subscriber to targets.
func (l *live) want(sub string, targets ...Target) {
	lease := l.Begin(subscriberOf(sub))
	for _, target := range targets {
		lease.Watch(target)
	}
	lease.Commit()
}

func (l *live) awaitState(t testing.TB, gvk schema.GroupVersionKind, s Selection, phase Phase, reason Reason) State {
	t.Helper()
	var got State
	l.poll(t, fmt.Sprintf("%s to be %s %s", gvk.Kind, phase, reason), func(context.Context) bool {
		got = l.State(gvk, s)
		return got.Phase == phase && got.Reason == reason
	})
	return got
}

func (l *live) vpcs() schema.GroupVersionResource {
	return l.kind("v1").GroupVersion().WithResource("vpcs")
}

// change matches any of the changes to an object.
func change(name string, c Change, k schema.GroupVersionKind, or ...Change) func(enqueued) bool {
	return func(l enqueued) bool {
		return (l.Change == c || slices.Contains(or, l.Change)) && l.Object.GroupKind() == k.GroupKind() && l.Object.Name == name
	}
}

func anything(enqueued) bool { return true }

func ignoreEvents(object.Key, Cause) {}
