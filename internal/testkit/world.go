package testkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Patience is for how long World waits for something to become true: long, since nothing that
// becomes true is waited for longer than it takes, and a busy machine fails nothing.
const Patience = 2 * time.Minute

// World is what a test does to a cluster as a user would: apply, change, delete,
// and wait until what it expects has come true.
type World struct {
	Client    dynamic.Interface
	discovery discovery.ServerResourcesInterface

	mu     sync.Mutex
	served map[schema.GroupVersionKind]metav1.APIResource
}

// NewWorld returns a World of the server.
func NewWorld(tb testing.TB, config *rest.Config) *World {
	tb.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		tb.Fatal(err)
	}
	disc, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		tb.Fatal(err)
	}
	return &World{Client: client, discovery: disc, served: map[schema.GroupVersionKind]metav1.APIResource{}}
}

// Parse reads the objects of a YAML text.
func Parse(tb testing.TB, text string) []*unstructured.Unstructured {
	tb.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	var out []*unstructured.Unstructured
	for {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(&o.Object); err != nil {
			if errors.Is(err, io.EOF) {
				return out
			}
			tb.Fatalf("parse: %v\n%s", err, text)
		}
		if len(o.Object) > 0 {
			out = append(out, o)
		}
	}
}

// ApplyFile applies the objects of a file.
func (w *World) ApplyFile(tb testing.TB, path string) {
	tb.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	w.Apply(tb, string(raw))
}

// Apply applies the objects of a YAML text by server-side apply, as a person
// with kubectl would, and returns the answers. A kind that is only just being
// served is waited for.
func (w *World) Apply(tb testing.TB, text string) []*unstructured.Unstructured {
	tb.Helper()
	var out []*unstructured.Unstructured
	for _, o := range Parse(tb, text) {
		answer, err := w.TryApply(tb, o)
		if err != nil {
			tb.Fatalf("apply %s %s: %v", o.GetKind(), o.GetName(), err)
		}
		out = append(out, answer)
	}
	return out
}

// TryApply applies one object and returns what the server says.
func (w *World) TryApply(tb testing.TB, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	tb.Helper()
	return w.Of(tb, o.GroupVersionKind(), o.GetNamespace()).Apply(tb.Context(), o.GetName(), o,
		metav1.ApplyOptions{FieldManager: "test", Force: true})
}

// Of returns the client of a kind's objects, once the kind is served.
func (w *World) Of(tb testing.TB, gvk schema.GroupVersionKind, namespace string) dynamic.ResourceInterface {
	tb.Helper()
	r := w.resource(tb, gvk)
	resource := w.Client.Resource(gvk.GroupVersion().WithResource(r.Name))
	if r.Namespaced {
		return resource.Namespace(namespace)
	}
	return resource
}

// resource returns the resource of a kind, once discovery lists it. There is no watch of discovery; asking
// for one group and version is the cheapest request there is for it, where listing all
// CustomResourceDefinitions or all groups takes the API server milliseconds.
func (w *World) resource(tb testing.TB, gvk schema.GroupVersionKind) metav1.APIResource {
	tb.Helper()
	w.mu.Lock()
	found, ok := w.served[gvk]
	w.mu.Unlock()
	if ok {
		return found
	}
	Poll(tb, gvk.String()+" is served", func() bool {
		list, err := w.discovery.ServerResourcesForGroupVersion(gvk.GroupVersion().String())
		if err != nil {
			return false
		}
		for _, r := range list.APIResources {
			if r.Kind == gvk.Kind && !strings.Contains(r.Name, "/") {
				found = r
				return true
			}
		}
		return false
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.served[gvk] = found
	return found
}

// Poll asks again and again until something is so that the API server offers no
// watch of: what it reads of its own configuration, and when.
func Poll(tb testing.TB, what string, so func() bool) {
	tb.Helper()
	PollFor(tb, Patience, what, so)
}

// PollFor is Poll for what may take longer, since there is much of it.
func PollFor(tb testing.TB, patience time.Duration, what string, so func() bool) {
	tb.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !so(); <-tick.C {
		if time.Now().After(deadline) {
			tb.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// Nudge changes an annotation of a CustomResourceDefinition that is being deleted, every now
// and then until the context ends. The API server, when it fails to take the objects of a
// kind away because their storage is only being opened, tries again later and later, up to
// a quarter of an hour; a change has it try at once.
func Nudge(ctx context.Context, crds dynamic.ResourceInterface, name string) {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"espalier.dev/nudge":"%d"}}}`, n)
			_, _ = crds.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}) // it may be gone
		}
	}
}

// Condition returns the status of an object's condition; empty if it has none.
func Condition(o *unstructured.Unstructured, kind string) string {
	return condition(o, kind, "status")
}

// Message returns the message of an object's condition.
func Message(o *unstructured.Unstructured, kind string) string {
	return condition(o, kind, "message")
}

// ReasonOf returns the reason of an object's condition.
func ReasonOf(o *unstructured.Unstructured, kind string) string {
	return condition(o, kind, "reason")
}

func condition(o *unstructured.Unstructured, kind, field string) string {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, item := range list {
		if m, ok := item.(map[string]any); ok && m["type"] == kind {
			text, _ := m[field].(string)
			return text
		}
	}
	return ""
}

// Await waits, on a watch, until the object is as the check wants it, which
// gets nil while there is no object, and returns it. A failure prints the object
// as it last was.
func (w *World) Await(tb testing.TB, gvk schema.GroupVersionKind, namespace, name string, check func(*unstructured.Unstructured) error) *unstructured.Unstructured {
	tb.Helper()
	var last *unstructured.Unstructured
	options := metav1.ListOptions{FieldSelector: "metadata.name=" + name}
	err := AwaitAny(tb.Context(), w.Of(tb, gvk, namespace), options, func(objects map[string]*unstructured.Unstructured) error {
		last = objects[namespace+"/"+name]
		return check(last)
	})
	if err != nil {
		tb.Fatalf("%s %s/%s: %v\n%s", gvk.Kind, namespace, name, err, Show(last))
	}
	return last
}

// AwaitReady waits until the object's Ready condition is true for its current
// generation.
func (w *World) AwaitReady(tb testing.TB, gvk schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	tb.Helper()
	return w.Await(tb, gvk, namespace, name, IsReady)
}

// IsReady checks that an object's Ready condition is true for its current
// generation.
func IsReady(o *unstructured.Unstructured) error {
	if o == nil {
		return errors.New("does not exist")
	}
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, item := range list {
		m, _ := item.(map[string]any)
		if m["type"] == "Ready" {
			if m["status"] == "True" && m["observedGeneration"] == o.GetGeneration() {
				return nil
			}
			return fmt.Errorf("is not ready: %v: %v", m["reason"], m["message"])
		}
	}
	return errors.New("has no Ready condition")
}

// AwaitGone waits until there is no object of the name.
func (w *World) AwaitGone(tb testing.TB, gvk schema.GroupVersionKind, namespace, name string) {
	tb.Helper()
	w.Await(tb, gvk, namespace, name, func(o *unstructured.Unstructured) error {
		if o != nil {
			return errors.New("is still there")
		}
		return nil
	})
}

// Delete deletes an object, which must exist.
func (w *World) Delete(tb testing.TB, gvk schema.GroupVersionKind, namespace, name string) {
	tb.Helper()
	if err := w.Of(tb, gvk, namespace).Delete(tb.Context(), name, metav1.DeleteOptions{}); err != nil {
		tb.Fatalf("delete %s %s/%s: %v", gvk.Kind, namespace, name, err)
	}
}

// Get reads an object; nil if there is none. A request that the API server has no time for
// is repeated.
func (w *World) Get(tb testing.TB, gvk schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	tb.Helper()
	var found *unstructured.Unstructured
	Poll(tb, "GET "+gvk.Kind+" "+namespace+"/"+name+" is answered", func() bool {
		o, err := w.Of(tb, gvk, namespace).Get(tb.Context(), name, metav1.GetOptions{})
		switch {
		case err == nil:
			found = o
		case !apierrors.IsNotFound(err):
			tb.Logf("get %s %s/%s: %v", gvk.Kind, namespace, name, err)
			return false
		}
		return true
	})
	return found
}

// Patch merges a change into an object, as a person would.
func (w *World) Patch(tb testing.TB, gvk schema.GroupVersionKind, namespace, name, change string) {
	tb.Helper()
	w.PatchAs(tb, "somebody", gvk, namespace, name, change)
}

// PatchAs merges a change into an object, as a field manager.
func (w *World) PatchAs(tb testing.TB, manager string, gvk schema.GroupVersionKind, namespace, name, change string) {
	tb.Helper()
	_, err := w.Of(tb, gvk, namespace).Patch(tb.Context(), name, types.MergePatchType, []byte(change), metav1.PatchOptions{FieldManager: manager})
	if err != nil {
		tb.Fatalf("patch %s %s/%s: %v", gvk.Kind, namespace, name, err)
	}
}

// SetStatus writes an object's status, as the controller of its kind would.
func (w *World) SetStatus(tb testing.TB, gvk schema.GroupVersionKind, namespace, name string, status map[string]any) {
	tb.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	o.SetGroupVersionKind(gvk)
	o.SetNamespace(namespace)
	o.SetName(name)
	if _, err := w.Of(tb, gvk, namespace).ApplyStatus(tb.Context(), name, o, metav1.ApplyOptions{FieldManager: "test-status", Force: true}); err != nil {
		tb.Fatalf("status of %s %s/%s: %v", gvk.Kind, namespace, name, err)
	}
}

// AwaitAny watches objects until the check of all of them, by namespace/name,
// holds. The error is the check's last one.
func AwaitAny(ctx context.Context, of dynamic.ResourceInterface, options metav1.ListOptions, check func(map[string]*unstructured.Unstructured) error) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	last := errors.New("nothing was seen")
	for ctx.Err() == nil {
		list, err := of.List(ctx, options)
		if err != nil {
			return errors.Join(last, err)
		}
		objects := map[string]*unstructured.Unstructured{}
		for i := range list.Items {
			o := &list.Items[i]
			objects[o.GetNamespace()+"/"+o.GetName()] = o
		}
		if last = check(objects); last == nil {
			return nil
		}
		from := options
		from.ResourceVersion = list.GetResourceVersion()
		events, err := of.Watch(ctx, from)
		if err != nil {
			return errors.Join(last, err)
		}
		for event := range events.ResultChan() {
			o, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				break // expired: list again
			}
			key := o.GetNamespace() + "/" + o.GetName()
			if event.Type == watch.Deleted {
				delete(objects, key)
			} else {
				objects[key] = o
			}
			if last = check(objects); last == nil {
				events.Stop()
				return nil
			}
		}
		events.Stop()
	}
	return fmt.Errorf("not within %s: %w", Patience, last)
}

// Show renders an object for a failure's message.
func Show(o *unstructured.Unstructured) string {
	if o == nil {
		return "(no object)"
	}
	shown := o.DeepCopy()
	shown.SetManagedFields(nil)
	raw, err := shown.MarshalJSON()
	if err != nil {
		return err.Error()
	}
	return string(raw)
}
