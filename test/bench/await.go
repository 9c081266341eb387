package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// check reports whether an event is the expected one.
type check func(watch.EventType, *unstructured.Unstructured) bool

// watchStream is a watch of all objects of one resource, which begins with those that exist. It is
// resumed when the API server closes it, as it does if events are received too slowly.
type watchStream struct {
	of       dynamic.ResourceInterface
	resource string
	timeout  time.Duration // of each wait
	now      watch.Interface
	revision string
}

func (b *bench) watch(ctx context.Context, gvr schema.GroupVersionResource) (*watchStream, error) {
	return b.watchBy(ctx, b.resource(gvr), gvr.Resource)
}

// watchBy watches with another client than the benchmark's.
func (b *bench) watchBy(ctx context.Context, of dynamic.ResourceInterface, resource string) (*watchStream, error) {
	w := &watchStream{of: of, resource: resource, timeout: b.waitTimeout()}
	return w, w.open(ctx)
}

func (w *watchStream) open(ctx context.Context) (err error) {
	w.now, err = w.of.Watch(ctx, metav1.ListOptions{ResourceVersion: w.revision, AllowWatchBookmarks: true})
	return err
}

// stop ends the watch.
func (w *watchStream) stop() { w.now.Stop() }

// await receives events until the check is true, and returns when that was.
func (w *watchStream) await(ctx context.Context, seen check) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	for {
		select {
		case e, open := <-w.now.ResultChan():
			if !open {
				if err := w.open(context.WithoutCancel(ctx)); err != nil {
					return time.Time{}, fmt.Errorf("watch %s again: %w", w.resource, err)
				}
				continue
			}
			if e.Type == watch.Error {
				return time.Time{}, fmt.Errorf("watch %s: %w", w.resource, apierrors.FromObject(e.Object))
			}
			o, ok := e.Object.(*unstructured.Unstructured)
			if !ok {
				continue
			}
			w.revision = o.GetResourceVersion()
			if e.Type != watch.Bookmark && seen(e.Type, o) {
				return time.Now(), nil
			}
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("wait for an event of %s: %w", w.resource, context.Cause(ctx))
		}
	}
}

// awaitAll waits until n different objects have passed the check.
func (w *watchStream) awaitAll(ctx context.Context, n int, check check) (time.Time, error) {
	passed := map[string]bool{}
	return w.await(ctx, func(t watch.EventType, o *unstructured.Unstructured) bool {
		if !passed[o.GetName()] && check(t, o) {
			passed[o.GetName()] = true
		}
		return len(passed) == n
	})
}

// isReady checks that the object is ready in a generation, or in a later one.
func isReady(generation int64) check {
	return func(t watch.EventType, o *unstructured.Unstructured) bool {
		ready, observed := condition(o, "Ready")
		return t != watch.Deleted && ready == "True" && observed == o.GetGeneration() && observed >= generation
	}
}

func isGone(t watch.EventType, _ *unstructured.Unstructured) bool { return t == watch.Deleted }

// condition returns a condition's status and the generation that it is about.
func condition(o *unstructured.Unstructured, kind string) (status string, observed int64) {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, item := range list {
		if c, ok := item.(map[string]any); ok && c["type"] == kind {
			status, _ = c["status"].(string)
			observed, _ = c["observedGeneration"].(int64)
		}
	}
	return status, observed
}

// awaitCondition waits until a condition of an object is true.
func (b *bench) awaitCondition(ctx context.Context, gvr schema.GroupVersionResource, name, kind string) error {
	w, err := b.watch(ctx, gvr)
	if err != nil {
		return err
	}
	defer w.stop()
	_, err = w.await(ctx, func(t watch.EventType, o *unstructured.Unstructured) bool {
		status, _ := condition(o, kind)
		return o.GetName() == name && t != watch.Deleted && status == "True"
	})
	return err
}

// withPrefix restricts a check to the objects with a prefix of their name.
func withPrefix(prefix string, check check) check {
	return func(t watch.EventType, o *unstructured.Unstructured) bool {
		return strings.HasPrefix(o.GetName(), prefix) && check(t, o)
	}
}
