// Package fakekube is what controllers are given in unit tests in place of an API server and
// its caches: objects in memory. It records each request, and fails those that a test says.
//
// It promises what conditional writes rest on: UIDs, resource versions, their preconditions,
// and that an object with finalizers outlives its deletion. Validation, admission, field
// management, garbage collection and events are the API server's alone: whatever rests on
// them is tested under test/.
package fakekube

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// Cluster holds objects. The fields may be changed between two calls.
type Cluster struct {
	// Requests are those that were made, each as "verb Kind namespace/name", in order.
	Requests []string
	// Events are those that were recorded, each as "Type Reason: message".
	Events []string
	// Before is called before a request is carried out, and After when it has been, with its
	// text; the error is the request's. Each may be nil.
	Before, After func(request string) error
	// Kinds is what there is to know of kinds that aren't served in the ordinary way.
	Kinds map[schema.GroupKind]Kind
	// Uncached are objects that the caches haven't heard of.
	Uncached map[object.Key]bool
	// Watched is what the subscribers' last leases want, as "Kind namespace/name".
	Watched map[object.Key][]string
	// Page is how many objects a list returns at once; 0 for all.
	Page int

	mu       sync.Mutex
	objects  map[object.Key]*unstructured.Unstructured
	revision int
	handlers map[schema.GroupVersionKind][]func(object.Key, watch.Cause)
	known    map[schema.GroupVersionResource]schema.GroupVersionKind
}

// Kind is how a kind is served.
type Kind struct {
	// Unserved says that no server knows it, and ClusterScoped that its objects are in no
	// namespace.
	Unserved, ClusterScoped bool
	// Preferred is the version that it is served in where another was asked for.
	Preferred string
	// Err is why it can't be found out.
	Err error
	// CRD is its CustomResourceDefinition, if it has one.
	CRD *apiextensionsv1.CustomResourceDefinition
	// State is that of its watches; Synced by default.
	State watch.State
}

// New returns a cluster with the objects of some YAML documents.
func New(documents ...string) *Cluster {
	c := &Cluster{
		Kinds: map[schema.GroupKind]Kind{}, Uncached: map[object.Key]bool{}, Watched: map[object.Key][]string{},
		objects: map[object.Key]*unstructured.Unstructured{}, handlers: map[schema.GroupVersionKind][]func(object.Key, watch.Cause){},
		known: map[schema.GroupVersionResource]schema.GroupVersionKind{},
	}
	for _, text := range documents {
		for _, document := range strings.Split(text, "\n---\n") {
			c.Add(Parse(document))
		}
	}
	return c
}

// Parse reads an object from YAML. It panics on what is none: the text is the test's.
func Parse(text string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = o.UnmarshalJSON(raw)
	}
	if err != nil {
		panic(fmt.Sprintf("%v: %s", err, text))
	}
	return o
}

// Add stores an object, as somebody else would; one that is there is replaced.
func (c *Cluster) Add(o *unstructured.Unstructured) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.store(o.DeepCopy())
}

// Remove takes an object away, whatever its finalizers.
func (c *Cluster) Remove(key object.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.objects, key)
}

// Object returns an object as it is stored; nil if there is none.
func (c *Cluster) Object(key object.Key) *unstructured.Unstructured {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.objects[key].DeepCopy()
}

// Change changes an object, as somebody else would.
func (c *Cluster) Change(key object.Key, change func(*unstructured.Unstructured)) {
	o := c.Object(key)
	change(o)
	c.Add(o)
}

// Keys are the keys of all objects, sorted.
func (c *Cluster) Keys() []object.Key {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keys(func(*unstructured.Unstructured) bool { return true })
}

// Writes returns the requests that change something, and forgets all that were made.
func (c *Cluster) Writes() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := slices.DeleteFunc(c.Requests, func(r string) bool { return strings.HasPrefix(r, "get ") || strings.HasPrefix(r, "list ") })
	c.Requests = nil
	if len(out) == 0 {
		return nil
	}
	return out
}

// store puts an object in place, under a new resource version. The lock is held.
func (c *Cluster) store(o *unstructured.Unstructured) *unstructured.Unstructured {
	c.revision++
	o.SetResourceVersion(strconv.Itoa(c.revision))
	if o.GetUID() == "" {
		o.SetUID(types.UID(fmt.Sprintf("uid-%d", c.revision)))
	}
	key := object.KeyOf(o)
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 {
		delete(c.objects, key)
		return o.DeepCopy()
	}
	c.objects[key] = o
	c.know(o.GroupVersionKind())
	return o.DeepCopy()
}

// keys are those of the objects that pass, sorted. The lock is held.
func (c *Cluster) keys(pass func(*unstructured.Unstructured) bool) (out []object.Key) {
	for key, o := range c.objects {
		if pass(o) {
			out = append(out, key)
		}
	}
	slices.SortFunc(out, object.Key.Compare)
	return out
}

// know notes how a kind is served. The lock is held.
func (c *Cluster) know(gvk schema.GroupVersionKind) schema.GroupVersionResource {
	gvr, _ := meta.UnsafeGuessKindToResource(gvk)
	c.known[gvr] = gvk
	return gvr
}

// served says how a kind is served, in this version.
func (c *Cluster) served(gvk schema.GroupVersionKind) (gvr schema.GroupVersionResource, namespaced bool, err error) {
	k := c.Kinds[gvk.GroupKind()]
	switch {
	case k.Err != nil:
		return gvr, false, k.Err
	case k.Unserved, k.Preferred != "" && k.Preferred != gvk.Version:
		return gvr, false, &kube.Unavailable{Kind: gvk}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.know(gvk), !k.ClusterScoped, nil
}

// Resolve is that of *kube.Kinds.
func (c *Cluster) Resolve(_ context.Context, gvk schema.GroupVersionKind) (kube.Resource, error) {
	gvr, namespaced, err := c.served(gvk)
	return kube.Resource{GVR: gvr, Namespaced: namespaced}, err
}

// Availability is that of *kube.Kinds.
func (c *Cluster) Availability(_ context.Context, gk schema.GroupKind) (schema.GroupVersionKind, kube.Availability, error) {
	k := c.Kinds[gk]
	switch {
	case k.Err != nil:
		return schema.GroupVersionKind{}, "", k.Err
	case k.Unserved:
		return schema.GroupVersionKind{}, kube.Gone, nil
	}
	return gk.WithVersion(k.Preferred), kube.Served, nil
}

// CRD is that of *kube.Kinds.
func (c *Cluster) CRD(gk schema.GroupKind) (*apiextensionsv1.CustomResourceDefinition, bool) {
	k := c.Kinds[gk]
	return k.CRD, k.CRD != nil
}

// RESTMapping is that of a meta.RESTMapper.
func (c *Cluster) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	gvk := gk.WithVersion(c.Kinds[gk].Preferred)
	if len(versions) > 0 {
		gvk.Version = versions[0]
	}
	gvr, namespaced, err := c.served(gvk)
	if kube.IsUnavailable(err) {
		return nil, &meta.NoKindMatchError{GroupKind: gk, SearchedVersions: versions}
	}
	scope := meta.RESTScopeRoot
	if namespaced {
		scope = meta.RESTScopeNamespace
	}
	return &meta.RESTMapping{Resource: gvr, GroupVersionKind: gvk, Scope: scope}, err
}

// Reset is that of a meta.ResettableRESTMapper: nothing is remembered.
func (c *Cluster) Reset() {}

// Event records an event; see telemetry.Recorder.
func (c *Cluster) Event(_ runtime.Object, severity telemetry.Severity, reason, message string) {
	c.Events = append(c.Events, fmt.Sprintf("%s %s: %s", severity, reason, message))
}
