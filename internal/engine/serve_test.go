package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/watch"
)

var widget = schema.GroupVersionKind{Group: "test.dev", Version: "v1", Kind: "Widget"}

// shelf holds objects that never change.
type shelf struct {
	dynamic.NamespaceableResourceInterface
	count int
}

func (s shelf) Resource(schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return s
}

func (s shelf) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{}
	list.SetResourceVersion("1")
	for i := range s.count {
		o := unstructured.Unstructured{Object: map[string]any{}}
		o.SetGroupVersionKind(widget)
		o.SetName(fmt.Sprint("w", i))
		o.SetResourceVersion("1")
		list.Items = append(list.Items, o)
	}
	return list, nil
}

func (s shelf) Watch(_ context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
	events := make(chan apiwatch.Event, s.count+1)
	if options.SendInitialEvents != nil && *options.SendInitialEvents {
		list, _ := s.List(nil, options) //nolint:staticcheck // the shelf needs no context
		for i := range list.Items {
			events <- apiwatch.Event{Type: apiwatch.Added, Object: &list.Items[i]}
		}
		end := &unstructured.Unstructured{Object: map[string]any{}}
		end.SetResourceVersion("1")
		end.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		events <- apiwatch.Event{Type: apiwatch.Bookmark, Object: end}
	}
	return apiwatch.NewProxyWatcher(events), nil
}

// onEngine runs a test against an engine over a shelf of widgets.
func onEngine(t *testing.T, widgets int, test func(e *Engine)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		hub := watch.New(watch.Config{
			Client:  shelf{count: widgets},
			Managed: "part-of",
			Resolve: func(context.Context, schema.GroupVersionKind) (watch.Resource, error) {
				return watch.Resource{GVR: widget.GroupVersion().WithResource("widgets")}, nil
			},
			Enqueue: func(watch.Subscriber, watch.Cause) {},
		})
		e := New(Config{Hub: hub, Workers: 4, Log: logr.Discard()})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = hub.Run(ctx) })
		running.Go(func() { _ = e.Run(ctx) })
		test(e)
		cancel()
		running.Wait()
	})
}

// witness notes what it was asked to reconcile, and takes its time over it.
type witness struct {
	mu   sync.Mutex
	seen map[string]int
	pass func(key object.Key)
}

func (w *witness) Reconcile(_ context.Context, key object.Key) outcome.Outcome {
	if w.pass != nil {
		w.pass(key)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen == nil {
		w.seen = map[string]int{}
	}
	w.seen[key.Name]++
	return outcome.Done()
}

func (w *witness) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.seen)
}

func TestAKindThatStartsAgainIsSeenAsAWhole(t *testing.T) {
	const widgets = 500
	onEngine(t, widgets, func(e *Engine) {
		for round := range 20 {
			w := &witness{}
			c := e.Start(widget, w)
			synctest.Wait()
			if got := w.count(); got != widgets {
				t.Errorf("round %d: %d of %d objects were looked at", round, got, widgets)
			}
			c.Stop() // the watch outlives this, and reports all it holds to the next
		}
	})
}

func TestASuccessorWaitsForThePassesOfWhomItReplaces(t *testing.T) {
	onEngine(t, 8, func(e *Engine) {
		var mu sync.Mutex
		working := map[string]bool{}
		pass := func(key object.Key) {
			mu.Lock()
			if working[key.Name] {
				t.Errorf("%s is worked on twice at once", key.Name)
			}
			working[key.Name] = true
			mu.Unlock()
			<-time.After(time.Second)
			mu.Lock()
			working[key.Name] = false
			mu.Unlock()
		}
		e.Start(widget, &witness{pass: pass})
		synctest.Wait()
		old := e.Start(widget, &witness{pass: pass})
		<-time.After(time.Second / 2)
		last := &witness{pass: pass}
		var starts sync.WaitGroup
		for range 3 { // of those that start at once, one is left
			starts.Go(func() { e.Start(widget, last) })
		}
		starts.Wait()
		old.Stop() // late: it hits none of its successors
		<-time.After(time.Minute)
		if got := last.count(); got != 8 {
			t.Errorf("the last controller looked at %d of 8 objects", got)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if len(e.running) != 1 || e.running[widget.GroupKind()].reconciler != last {
			t.Errorf("the last controller was stopped with its predecessor")
		}
	})
}

func TestWhatAPanicTells(t *testing.T) {
	cases := map[string]struct {
		pass func(object.Key)
		want string
		hide string
	}{
		"The text of a mistake in the program": {
			pass: func(object.Key) { nothing()["x"] = 1 },
			want: "assignment to entry in nil map",
		},
		"Of a value its type alone, for it may hold what a Secret holds": {
			pass: func(object.Key) { panic("hunter2") },
			want: "panic with a string", hide: "hunter2",
		},
		"Of an error its type alone": {
			pass: func(object.Key) { panic(errors.New("hunter2")) },
			want: "panic with a *errors.errorString", hide: "hunter2",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out := guarded(t.Context(), &witness{pass: tc.pass}, key("a"))
			if out.Err == nil {
				t.Fatal("a panic is no failure")
			}
			text := out.Err.Error()
			if !strings.Contains(text, tc.want) || !strings.Contains(text, "serve_test.go") {
				t.Errorf("want %q and the stack, got %s", tc.want, text)
			}
			if tc.hide != "" && strings.Contains(text, tc.hide) {
				t.Errorf("the value is told: %s", text)
			}
		})
	}
}

// nothing is a map that a program forgot to make.
func nothing() map[string]int { return nil }
