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

// Timeout limits each wait of a Cluster. It is long so that a busy machine fails no test; a
// wait that succeeds ends at once.
const Timeout = 2 * time.Minute

// Cluster is a test's client: it applies, changes and deletes objects as a user does, and
// waits for expected states. It is safe for concurrent use.
type Cluster struct {
	Client    dynamic.Interface
	discovery discovery.ServerResourcesInterface

	mu     sync.Mutex
	served map[schema.GroupVersionKind]metav1.APIResource
}

// NewCluster returns a client of the server.
func NewCluster(tb testing.TB, config *rest.Config) *Cluster {
	tb.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		tb.Fatal(err)
	}
	disc, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		tb.Fatal(err)
	}
	return &Cluster{Client: client, discovery: disc, served: map[schema.GroupVersionKind]metav1.APIResource{}}
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
func (c *Cluster) ApplyFile(tb testing.TB, path string) {
	tb.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	c.Apply(tb, string(raw))
}

// Apply applies the objects of a YAML text by server-side apply, and returns them as
// stored. It waits until their kinds are served with the fields of the objects.
func (c *Cluster) Apply(tb testing.TB, text string) []*unstructured.Unstructured {
	tb.Helper()
	var out []*unstructured.Unstructured
	for _, o := range Parse(tb, text) {
		out = append(out, c.apply(tb, o))
	}
	return out
}

// apply applies one object. The API server may serve the former schema of a kind for a moment after its
// CustomResourceDefinition was changed, and then refuses new fields; it has no watch for that.
func (c *Cluster) apply(tb testing.TB, o *unstructured.Unstructured) *unstructured.Unstructured {
	tb.Helper()
	answer, err := c.TryApply(tb, o)
	if lacksField(err) {
		Poll(tb, fmt.Sprintf("%s has the fields of %s (%v)", o.GetKind(), o.GetName(), err), func() bool {
			answer, err = c.TryApply(tb, o)
			return !lacksField(err)
		})
	}
	if err != nil {
		tb.Fatalf("apply %s %s: %v", o.GetKind(), o.GetName(), err)
	}
	return answer
}

func lacksField(err error) bool {
	return err != nil && strings.Contains(err.Error(), "field not declared in schema")
}

// TryApply applies one object and returns the server's answer, or its error.
func (c *Cluster) TryApply(tb testing.TB, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	tb.Helper()
	return c.Resource(tb, o.GroupVersionKind(), o.GetNamespace()).Apply(tb.Context(), o.GetName(), o,
		metav1.ApplyOptions{FieldManager: "test", Force: true})
}

// Resource waits until a kind is served, and returns the client of its objects.
func (c *Cluster) Resource(tb testing.TB, gvk schema.GroupVersionKind, namespace string) dynamic.ResourceInterface {
	tb.Helper()
	r := c.apiResource(tb, gvk)
	resource := c.Client.Resource(gvk.GroupVersion().WithResource(r.Name))
	if r.Namespaced {
		return resource.Namespace(namespace)
	}
	return resource
}

// apiResource waits until discovery lists a kind, and returns its resource. Discovery has no
// watch; a request for one group and version is the cheapest, while a list of all groups or
// of all CustomResourceDefinitions takes the API server milliseconds.
func (c *Cluster) apiResource(tb testing.TB, gvk schema.GroupVersionKind) metav1.APIResource {
	tb.Helper()
	c.mu.Lock()
	found, ok := c.served[gvk]
	c.mu.Unlock()
	if ok {
		return found
	}
	Poll(tb, gvk.String()+" is served", func() bool {
		list, err := c.discovery.ServerResourcesForGroupVersion(gvk.GroupVersion().String())
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
	c.mu.Lock()
	defer c.mu.Unlock()
	c.served[gvk] = found
	return found
}

// Poll calls a condition every 20 milliseconds until it holds. It is for what the API server
// has no watch for, such as when it reads its own configuration.
func Poll(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	PollFor(tb, Timeout, what, condition)
}

// PollFor is Poll with another timeout, for long work.
func PollFor(tb testing.TB, timeout time.Duration, what string, condition func() bool) {
	tb.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(timeout); !condition(); <-tick.C {
		if time.Now().After(deadline) {
			tb.Fatalf("not within %s: %s", timeout, what)
		}
	}
}

// TouchCRD changes an annotation of a terminating CustomResourceDefinition every five
// seconds until the context ends. Where the API server fails to delete the objects of the
// kind because their storage is not open yet, it retries with a backoff of up to a quarter
// of an hour; a change makes it retry at once.
func TouchCRD(ctx context.Context, crds dynamic.ResourceInterface, name string) {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"espalier.dev/nudge":"%d"}}}`, n)
			_, _ = crds.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}) // the CRD may be gone
		}
	}
}

// ConditionStatus returns the status of an object's condition; empty if it has none.
func ConditionStatus(o *unstructured.Unstructured, kind string) string {
	return condition(o, kind, "status")
}

// ConditionMessage returns the message of an object's condition; empty if it has none.
func ConditionMessage(o *unstructured.Unstructured, kind string) string {
	return condition(o, kind, "message")
}

// ConditionReason returns the reason of an object's condition; empty if it has none.
func ConditionReason(o *unstructured.Unstructured, kind string) string {
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

// Await watches an object until the check passes, and returns the object. The check gets nil
// while the object is absent. A failure prints the object's last state.
func (c *Cluster) Await(tb testing.TB, gvk schema.GroupVersionKind, namespace, name string,
	check func(*unstructured.Unstructured) error) *unstructured.Unstructured {
	tb.Helper()
	var last *unstructured.Unstructured
	options := metav1.ListOptions{FieldSelector: "metadata.name=" + name}
	err := AwaitList(tb.Context(), c.Resource(tb, gvk, namespace), options, func(objects map[string]*unstructured.Unstructured) error {
		last = objects[namespace+"/"+name]
		return check(last)
	})
	if err != nil {
		stored, readErr := c.Resource(tb, gvk, namespace).Get(tb.Context(), name, metav1.GetOptions{}) // lists and watches come from a cache
		tb.Fatalf("%s %s/%s: %v\n%s\nstored: %s", gvk.Kind, namespace, name, err, JSON(last), lastWrites(stored, readErr))
	}
	return last
}

// AwaitReady waits until IsReady passes, and returns the object.
func (c *Cluster) AwaitReady(tb testing.TB, gvk schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	tb.Helper()
	return c.Await(tb, gvk, namespace, name, IsReady)
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

// AwaitGone waits until no object of the name exists.
func (c *Cluster) AwaitGone(tb testing.TB, gvk schema.GroupVersionKind, namespace, name string) {
	tb.Helper()
	c.Await(tb, gvk, namespace, name, func(o *unstructured.Unstructured) error {
		if o != nil {
			return errors.New("is still there")
		}
		return nil
	})
}

// FreeLeases lets the programs of this test elect their leader, and have their signing key, in
// another namespace than those of the tests before, which are recorded on the
// CustomResourceDefinition of Bindings. None of them may still run.
func (c *Cluster) FreeLeases(tb testing.TB) {
	tb.Helper()
	kind := schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	bindings := c.Get(tb, kind, "", "bindings.espalier.dev")
	if bindings == nil {
		return
	}
	for name := range bindings.GetAnnotations() {
		if strings.HasPrefix(name, "lease.espalier.dev/") || name == "espalier.dev/signing-key" {
			c.Patch(tb, kind, "", bindings.GetName(), fmt.Sprintf(`{"metadata": {"annotations": {%q: null}}}`, name))
		}
	}
}

// DeleteCRD deletes a CustomResourceDefinition, which must exist, once the API server can list its
// objects. If the deletion begins before that, the API server may leave it with its cleanup
// finalizer for minutes: "could not list instances: storage is (re)initializing".
func (c *Cluster) DeleteCRD(tb testing.TB, name string) {
	tb.Helper()
	kind := schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	spec, _, _ := unstructured.NestedMap(c.Get(tb, kind, "", name).Object, "spec")
	plural, _, _ := unstructured.NestedString(spec, "names", "plural")
	versions, _, _ := unstructured.NestedSlice(spec, "versions")
	for _, version := range versions {
		fields, _ := version.(map[string]any)
		if fields["served"] != true {
			continue
		}
		group, _ := spec["group"].(string)
		served, _ := fields["name"].(string)
		objects := c.Client.Resource(schema.GroupVersionResource{Group: group, Version: served, Resource: plural})
		Poll(tb, "the API server lists "+name, func() bool {
			_, err := objects.List(tb.Context(), metav1.ListOptions{Limit: 1})
			return err == nil
		})
		break
	}
	c.Delete(tb, kind, "", name)
}

// Delete deletes an object, which must exist.
func (c *Cluster) Delete(tb testing.TB, gvk schema.GroupVersionKind, namespace, name string) {
	tb.Helper()
	if err := c.Resource(tb, gvk, namespace).Delete(tb.Context(), name, metav1.DeleteOptions{}); err != nil {
		tb.Fatalf("delete %s %s/%s: %v", gvk.Kind, namespace, name, err)
	}
}

// DeleteWith is Delete with a propagation policy.
func (c *Cluster) DeleteWith(tb testing.TB, gvk schema.GroupVersionKind, namespace, name string, policy metav1.DeletionPropagation) {
	tb.Helper()
	if err := c.Resource(tb, gvk, namespace).Delete(tb.Context(), name, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
		tb.Fatalf("delete %s %s/%s: %v", gvk.Kind, namespace, name, err)
	}
}

// List reads the objects of a kind that match a label selector; an empty selector matches all.
func (c *Cluster) List(tb testing.TB, gvk schema.GroupVersionKind, namespace, selector string) []unstructured.Unstructured {
	tb.Helper()
	list, err := c.Resource(tb, gvk, namespace).List(tb.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		tb.Fatalf("list %s in namespace %q: %v", gvk.Kind, namespace, err)
	}
	return list.Items
}

// AwaitList watches the objects of a kind that match a label selector until the check passes.
func (c *Cluster) AwaitList(tb testing.TB, gvk schema.GroupVersionKind, namespace, selector string, check func(map[string]*unstructured.Unstructured) error) {
	tb.Helper()
	if err := AwaitList(tb.Context(), c.Resource(tb, gvk, namespace), metav1.ListOptions{LabelSelector: selector}, check); err != nil {
		tb.Fatal(err)
	}
}

// Get reads an object; nil if it does not exist. It retries on other errors, since a busy API
// server refuses requests.
func (c *Cluster) Get(tb testing.TB, gvk schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	tb.Helper()
	var found *unstructured.Unstructured
	Poll(tb, "GET "+gvk.Kind+" "+namespace+"/"+name+" succeeds", func() bool {
		o, err := c.Resource(tb, gvk, namespace).Get(tb.Context(), name, metav1.GetOptions{})
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

// Patch merges a change into an object, as the field manager "a user".
func (c *Cluster) Patch(tb testing.TB, gvk schema.GroupVersionKind, namespace, name, change string) {
	tb.Helper()
	c.PatchAs(tb, "somebody", gvk, namespace, name, change)
}

// PatchAs merges a change into an object, as the given field manager.
func (c *Cluster) PatchAs(tb testing.TB, manager string, gvk schema.GroupVersionKind, namespace, name, change string) {
	tb.Helper()
	_, err := c.Resource(tb, gvk, namespace).Patch(tb.Context(), name, types.MergePatchType, []byte(change), metav1.PatchOptions{FieldManager: manager})
	if err != nil {
		tb.Fatalf("patch %s %s/%s: %v", gvk.Kind, namespace, name, err)
	}
}

// SetStatus applies an object's status, as the controller of its kind does.
func (c *Cluster) SetStatus(tb testing.TB, gvk schema.GroupVersionKind, namespace, name string, status map[string]any) {
	tb.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	o.SetGroupVersionKind(gvk)
	o.SetNamespace(namespace)
	o.SetName(name)
	if _, err := c.Resource(tb, gvk, namespace).ApplyStatus(tb.Context(), name, o, metav1.ApplyOptions{FieldManager: "test-status", Force: true}); err != nil {
		tb.Fatalf("status of %s %s/%s: %v", gvk.Kind, namespace, name, err)
	}
}

// AwaitList watches objects until the check passes, which gets all of them by
// "namespace/name". The error of a timeout wraps the last one of the check, and says whether a new list
// passes it: then the watch is at fault.
func AwaitList(ctx context.Context, resource dynamic.ResourceInterface, options metav1.ListOptions,
	check func(map[string]*unstructured.Unstructured) error) error {
	ending, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	last := errors.New("no objects were listed")
	for ending.Err() == nil {
		list, err := resource.List(ending, options)
		if err != nil {
			return errors.Join(last, err)
		}
		objects := byKey(list)
		if last = check(objects); last == nil {
			return nil
		}
		from := options
		from.ResourceVersion = list.GetResourceVersion()
		events, err := resource.Watch(ending, from)
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
	if list, err := resource.List(ctx, options); err == nil && check(byKey(list)) == nil {
		return fmt.Errorf("the watch has not shown it within %s, although a list does: %w", Timeout, last)
	}
	return fmt.Errorf("not within %s: %w", Timeout, last)
}

// byKey returns the objects of a list by "namespace/name".
func byKey(list *unstructured.UnstructuredList) map[string]*unstructured.Unstructured {
	objects := make(map[string]*unstructured.Unstructured, len(list.Items))
	for i := range list.Items {
		o := &list.Items[i]
		objects[o.GetNamespace()+"/"+o.GetName()] = o
	}
	return objects
}

// ListServed lists the objects of all kinds that a group and version serves now.
func (c *Cluster) ListServed(ctx context.Context, of schema.GroupVersion) ([]unstructured.Unstructured, error) {
	served, err := c.discovery.ServerResourcesForGroupVersion(of.String())
	if err != nil {
		return nil, err
	}
	var all []unstructured.Unstructured
	for _, resource := range served.APIResources {
		if strings.Contains(resource.Name, "/") {
			continue // a subresource
		}
		list, err := c.Client.Resource(of.WithResource(resource.Name)).List(ctx, metav1.ListOptions{})
		if err != nil {
			return all, err
		}
		all = append(all, list.Items...)
	}
	return all, nil
}

// lastWrites lists the resource version of an object that was read, and who wrote it last and when.
func lastWrites(o *unstructured.Unstructured, err error) string {
	if err != nil {
		return err.Error()
	}
	out := []string{"resource version " + o.GetResourceVersion()}
	for _, entry := range o.GetManagedFields() {
		out = append(out, fmt.Sprintf("%s %s %s at %s", entry.Manager, entry.Operation, entry.Subresource, entry.Time))
	}
	return strings.Join(out, "; ")
}

// JSON renders an object without its managed fields, for a failure's message.
func JSON(o *unstructured.Unstructured) string {
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
