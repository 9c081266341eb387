package deletion

import (
	"context"
	"fmt"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// revisionChecker watches every revision of objects, and records those that fail a check.
type revisionChecker struct {
	stop context.CancelFunc
	done sync.WaitGroup

	mu       sync.Mutex
	seen     int
	failures []string
}

// watchLayers checks all revisions of all instances of the nest.
func watchLayers(t *testing.T, s suite.Suite, check func(*unstructured.Unstructured) error) *revisionChecker {
	t.Helper()
	return watchKinds(t, s, kindsOf(s, layers...), check)
}

// watchAll checks all revisions of all instances of a kind.
func watchAll(t *testing.T, s suite.Suite, gvk schema.GroupVersionKind, check func(*unstructured.Unstructured) error) *revisionChecker {
	t.Helper()
	return watchKinds(t, s, []schema.GroupVersionKind{gvk}, check)
}

func watchKinds(t *testing.T, s suite.Suite, kinds []schema.GroupVersionKind, check func(*unstructured.Unstructured) error) *revisionChecker {
	t.Helper()
	w := &revisionChecker{}
	var ctx context.Context
	ctx, w.stop = context.WithCancel(context.Background())
	t.Cleanup(func() {
		w.stop()
		w.done.Wait()
	})
	for _, gvk := range kinds {
		of := s.Resource(t, gvk, s.NS)
		list, err := of.List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		w.done.Go(func() { w.follow(ctx, of, list.GetResourceVersion(), check) })
	}
	return w
}

// follow checks revisions after the given one until it is stopped, or the kind is deleted.
func (w *revisionChecker) follow(ctx context.Context, of dynamic.ResourceInterface, revision string, check func(*unstructured.Unstructured) error) {
	for ctx.Err() == nil {
		events, err := of.Watch(ctx, metav1.ListOptions{ResourceVersion: revision, AllowWatchBookmarks: true})
		if err != nil {
			if ctx.Err() == nil && !apierrors.IsNotFound(err) {
				w.fail(fmt.Sprintf("the watch failed: %v", err))
			}
			return
		}
		for event := range events.ResultChan() {
			o, ok := event.Object.(*unstructured.Unstructured)
			if !ok || event.Type == watch.Error {
				break
			}
			revision = o.GetResourceVersion()
			if event.Type == watch.Bookmark || event.Type == watch.Deleted {
				continue
			}
			w.mu.Lock()
			w.seen++
			w.mu.Unlock()
			if err := check(o); err != nil {
				w.fail(fmt.Sprintf("%s %s: %v\n%s", o.GetKind(), o.GetName(), err, testkit.JSON(o)))
			}
		}
		events.Stop()
	}
}

func (w *revisionChecker) fail(failure string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures = append(w.failures, failure)
}

// check fails the test if a revision failed its check, and returns the number of revisions.
func (w *revisionChecker) check(t *testing.T) (seen int) {
	t.Helper()
	w.stop()
	w.done.Wait()
	for i, failure := range w.failures {
		if i == 5 {
			t.Errorf("and %d more", len(w.failures)-i)
			break
		}
		t.Error(failure)
	}
	if w.seen == 0 {
		t.Error("no revision was seen")
	}
	return w.seen
}

func kindsOf(s suite.Suite, names ...string) []schema.GroupVersionKind {
	out := make([]schema.GroupVersionKind, len(names))
	for i, name := range names {
		out[i] = s.Kind(name)
	}
	return out
}

// awaitGone waits until the object is deleted, whether its kind is still served or not.
func awaitGone(t *testing.T, s suite.Suite, gvk schema.GroupVersionKind, name string) {
	t.Helper()
	var last *unstructured.Unstructured
	options := metav1.ListOptions{FieldSelector: "metadata.name=" + name}
	err := testkit.AwaitList(t.Context(), s.Resource(t, gvk, s.NS), options, func(objects map[string]*unstructured.Unstructured) error {
		if last = objects[s.NS+"/"+name]; last != nil {
			return fmt.Errorf("still exists")
		}
		return nil
	})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatalf("%s %s/%s: %v\n%s", gvk.Kind, s.NS, name, err, testkit.JSON(last))
	}
}

// awaitServed waits until the API server serves a kind, for which there is no watch.
func awaitServed(t *testing.T, s suite.Suite, gvk schema.GroupVersionKind) {
	t.Helper()
	testkit.Poll(t, gvk.String()+" is served", func() bool {
		_, err := s.Resource(t, gvk, s.NS).List(t.Context(), metav1.ListOptions{Limit: 1})
		return err == nil
	})
}
