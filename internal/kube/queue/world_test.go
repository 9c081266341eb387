package queue

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

var (
	widget = schema.GroupVersionKind{Group: "test.dev", Version: "v1", Kind: "Widget"}
	part   = schema.GroupVersionKind{Group: "test.dev", Version: "v1", Kind: "Part"}
)

// widgetKey is the key of a widget in a world.
func widgetKey(n int) object.Key {
	return object.Key{Group: widget.Group, Kind: widget.Kind, Name: fmt.Sprint("w", n)}
}

// Add requests a reconcile of a key of no traced event, which is queued with those of its own namespace.
func (k *kindQueue) Add(key object.Key, p watch.Priority) {
	k.AddFor(key.Namespace, key, watch.Cause{Priority: p})
}

// world is an API server with widgets, which never change, and no parts.
type world struct {
	mu       sync.Mutex
	revision int
	widgets  map[string]int // their revisions
	watches  []chan apiwatch.Event
	// gone says that the kind of the widgets is deleted.
	gone bool
}

func newWorld(widgets int) *world {
	w := &world{revision: 1, widgets: map[string]int{}}
	for n := range widgets {
		w.widgets[widgetKey(n).Name] = w.revision
	}
	return w
}

// remove deletes a widget.
func (w *world) remove(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := widgetKey(n).Name
	w.revision++
	delete(w.widgets, name)
	w.deliver(apiwatch.Deleted, widgetObject(name, w.revision))
}

// deliver sends an event to all watches. The lock is held.
func (w *world) deliver(event apiwatch.EventType, o *unstructured.Unstructured) {
	for _, events := range w.watches {
		events <- apiwatch.Event{Type: event, Object: o}
	}
}

// dropKind deletes the kind of the widgets, and them with it.
func (w *world) dropKind() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.widgets)
	w.gone = true
}

func (w *world) resolve(_ context.Context, kind schema.GroupVersionKind) (watch.Resource, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if kind == part {
		return watch.Resource{GVR: part.GroupVersion().WithResource("parts")}, nil
	}
	if w.gone {
		return watch.Resource{}, &watch.UnavailableError{Reason: watch.WaitingForKind, Gone: true}
	}
	return watch.Resource{GVR: widget.GroupVersion().WithResource("widgets")}, nil
}

func (w *world) Resource(r schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	if r.Resource == "parts" {
		return resource{world: newWorld(0)}
	}
	return resource{world: w}
}

// resource serves the objects of one kind.
type resource struct {
	dynamic.NamespaceableResourceInterface
	world *world
}

func (s resource) Namespace(string) dynamic.ResourceInterface { return s }

func (s resource) Get(_ context.Context, name string, _ metav1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	revision, found := s.world.widgets[name]
	if !found {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: widget.Group, Resource: "widgets"}, name)
	}
	return widgetObject(name, revision), nil
}

func (s resource) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	return s.world.list(), nil
}

func (w *world) list() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetResourceVersion(strconv.Itoa(w.revision))
	for name, revision := range w.widgets {
		list.Items = append(list.Items, *widgetObject(name, revision))
	}
	return list
}

func (s resource) Watch(_ context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	list := s.world.list()
	events := make(chan apiwatch.Event, 2*len(list.Items)+10) // the initial events, the deletions, the bookmark, and some more
	if options.SendInitialEvents != nil && *options.SendInitialEvents {
		for i := range list.Items {
			events <- apiwatch.Event{Type: apiwatch.Added, Object: &list.Items[i]}
		}
		end := &unstructured.Unstructured{Object: map[string]any{}}
		end.SetResourceVersion(list.GetResourceVersion())
		end.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		events <- apiwatch.Event{Type: apiwatch.Bookmark, Object: end}
	}
	s.world.watches = append(s.world.watches, events)
	return apiwatch.NewProxyWatcher(events), nil
}

func widgetObject(name string, revision int) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(widget)
	o.SetName(name)
	o.SetResourceVersion(strconv.Itoa(revision))
	o.Object["spec"] = map[string]any{"size": "large"}
	return o
}

// engineOver returns an engine over a world; both wait to be run.
func engineOver(w *world, c Config) *Engine {
	var e *Engine
	c.Hub = watch.New(watch.Config{
		Client: w, ManagedLabel: "part-of", Resolve: w.resolve,
		Enqueue: func(s watch.Subscriber, cause watch.Cause) { e.Enqueue(s, cause) },
		Wrote:   func(s watch.Subscriber, w watch.Write) { e.Wrote(s, w) },
	})
	e = New(c)
	return e
}

// run runs the engine with its hub; end ends both and waits for that.
func run(t testing.TB, e *Engine) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = e.Hub.Run(ctx) })
	running.Go(func() { _ = e.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// onWorld runs a test against an engine with four workers over a world.
func onWorld(t *testing.T, widgets int, test func(w *world, e *Engine)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(widgets)
		e := engineOver(w, Config{Workers: 4, Log: logr.Discard()})
		end := run(t, e)
		test(w, e)
		end()
	})
}

// reconciles makes a reconciler of a function.
type reconciles func(ctx context.Context, key object.Key) reconcile.Result

func (f reconciles) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	return f(ctx, key)
}

// hangs is a reconcile that ends only with its context.
func hangs(ctx context.Context, _ object.Key) reconcile.Result {
	<-ctx.Done()
	return reconcile.Fail(ctx.Err())
}
