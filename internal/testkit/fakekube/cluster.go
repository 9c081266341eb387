// Package fakekube is a fake of an API server and of the caches over it, for unit tests of
// controllers: objects in memory. It records each request, and fails those that a test chooses.
//
// It implements what conditional writes rely on: UIDs, resource versions, their preconditions,
// and finalizers. Validation, admission, field management, garbage collection and watch events
// are left to the API server: tests of what relies on them are under test/.
package fakekube

import (
	"context"
	"fmt"
	"maps"
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

// Cluster holds objects. Its fields may be changed between two calls.
type Cluster struct {
	// Requests are the requests so far, each as "verb Kind namespace/name".
	Requests []string
	// Events are the recorded events, each as "Type Reason: message".
	Events []string
	// Before is called before each request takes effect, After once it has, with the text in
	// Requests; the request returns their error. Each may be nil.
	Before, After func(request string) error
	// Kinds holds the kinds that are not simply served, namespaced and cached.
	Kinds map[schema.GroupKind]Kind
	// Uncached are objects that have not reached the caches.
	Uncached map[object.Key]bool
	// Watched is what the last committed lease of each subscriber reads, as "Kind namespace/name".
	Watched map[object.Key][]string
	// Page limits the objects of one answer to a list; 0 is no limit.
	Page int

	mu       sync.Mutex
	objects  map[object.Key]*unstructured.Unstructured
	revision int
	handlers map[schema.GroupVersionKind][]func(object.Key, watch.Cause)
	resolved map[schema.GroupVersionResource]schema.GroupVersionKind
	events   events
}

// Kind is how a kind is served.
type Kind struct {
	Unserved, ClusterScoped bool
	// Preferred is the only version that is served; empty for all.
	Preferred string
	// Err is the error of discovery.
	Err error
	// CRD is the kind's CustomResourceDefinition; nil for none.
	CRD *apiextensionsv1.CustomResourceDefinition
	// State is the state of the kind's watches; Synced by default.
	State watch.State
}

// New returns a cluster with the objects of YAML documents.
func New(documents ...string) *Cluster {
	c := &Cluster{
		Kinds: map[schema.GroupKind]Kind{}, Uncached: map[object.Key]bool{}, Watched: map[object.Key][]string{},
		objects: map[object.Key]*unstructured.Unstructured{}, handlers: map[schema.GroupVersionKind][]func(object.Key, watch.Cause){},
		resolved: map[schema.GroupVersionResource]schema.GroupVersionKind{},
	}
	for _, document := range strings.Split(strings.Join(documents, "\n---\n"), "\n---\n") {
		if document != "" {
			c.Add(Parse(document))
		}
	}
	return c
}

// SetBefore sets Before while other goroutines make requests.
func (c *Cluster) SetBefore(before func(request string) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Before = before
}

// RequestsSoFar returns Requests while other goroutines make requests.
func (c *Cluster) RequestsSoFar() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.Requests)
}

// Parse reads an object from YAML, and panics where the text is none.
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

// Add creates or replaces an object, without a request.
func (c *Cluster) Add(o *unstructured.Unstructured) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.store(o.DeepCopy())
}

// Change changes an object, without a request.
func (c *Cluster) Change(key object.Key, change func(*unstructured.Unstructured)) {
	o := c.Object(key)
	change(o)
	c.Add(o)
}

// Remove removes an object with its finalizers, without a request.
func (c *Cluster) Remove(key object.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.objects[key].DeepCopy(); o != nil {
		c.revision++
		o.SetResourceVersion(strconv.Itoa(c.revision))
		c.delete(o)
	}
}

// Object returns a copy of an object; nil if there is none.
func (c *Cluster) Object(key object.Key) *unstructured.Unstructured {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.objects[key].DeepCopy()
}

// Keys returns the keys of all objects, sorted.
func (c *Cluster) Keys() []object.Key {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Keys(c.objects), object.Key.Compare)
}

// Writes returns the requests that write, and resets Requests.
func (c *Cluster) Writes() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, request := range c.Requests {
		if verb, _, _ := strings.Cut(request, " "); verb != "get" && verb != "list" && verb != "watch" {
			out = append(out, request)
		}
	}
	c.Requests = nil
	return out
}

// store stores an object under a new resource version, or removes it at its last finalizer, and
// returns a copy. The lock is held.
func (c *Cluster) store(o *unstructured.Unstructured) *unstructured.Unstructured {
	c.revision++
	o.SetResourceVersion(strconv.Itoa(c.revision))
	if o.GetUID() == "" {
		o.SetUID(types.UID(fmt.Sprintf("uid-%d", c.revision)))
	}
	if key := object.KeyOf(o); o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 {
		c.delete(o)
	} else {
		c.events.add(c.objects[key], o)
		c.objects[key] = o
		c.resource(o.GroupVersionKind())
	}
	return o.DeepCopy()
}

// delete removes an object, of which last is the final state. The lock is held.
func (c *Cluster) delete(last *unstructured.Unstructured) {
	delete(c.objects, object.KeyOf(last))
	c.events.add(last, nil)
}

// resource returns the resource of a kind, and notes it for Resource. The lock is held.
func (c *Cluster) resource(gvk schema.GroupVersionKind) schema.GroupVersionResource {
	gvr, _ := meta.UnsafeGuessKindToResource(gvk)
	c.resolved[gvr] = gvk
	return gvr
}

// Resolve implements kube.Resolver.
func (c *Cluster) Resolve(_ context.Context, gvk schema.GroupVersionKind) (kube.Resource, error) {
	k := c.Kinds[gvk.GroupKind()]
	if k.Err != nil {
		return kube.Resource{}, k.Err
	}
	if k.Unserved || k.Preferred != "" && k.Preferred != gvk.Version {
		return kube.Resource{}, &kube.NoKindMatchError{Kind: gvk}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return kube.Resource{GVR: c.resource(gvk), Namespaced: !k.ClusterScoped}, nil
}

// Availability and CRD are methods of *kube.Kinds.
func (c *Cluster) Availability(_ context.Context, gk schema.GroupKind) (schema.GroupVersionKind, kube.Availability, error) {
	k := c.Kinds[gk]
	if k.Err != nil || k.Unserved {
		return schema.GroupVersionKind{}, kube.Gone, k.Err
	}
	return gk.WithVersion(k.Preferred), kube.Served, nil
}

func (c *Cluster) CRD(gk schema.GroupKind) (*apiextensionsv1.CustomResourceDefinition, bool) {
	crd := c.Kinds[gk].CRD
	return crd, crd != nil
}

// RESTMapping and Reset implement meta.ResettableRESTMapper, as far as it is used.
func (c *Cluster) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	gvk := gk.WithVersion(c.Kinds[gk].Preferred)
	if len(versions) > 0 {
		gvk.Version = versions[0]
	}
	r, err := c.Resolve(context.Background(), gvk)
	if kube.IsNoKindMatch(err) {
		return nil, &meta.NoKindMatchError{GroupKind: gk, SearchedVersions: versions}
	}
	scope := meta.RESTScopeRoot
	if r.Namespaced {
		scope = meta.RESTScopeNamespace
	}
	return &meta.RESTMapping{Resource: r.GVR, GroupVersionKind: gvk, Scope: scope}, err
}

func (c *Cluster) Reset() {}

// Event implements telemetry.Recorder.
func (c *Cluster) Event(_ runtime.Object, severity telemetry.Severity, reason, message string) {
	c.Events = append(c.Events, fmt.Sprintf("%s %s: %s", severity, reason, message))
}
