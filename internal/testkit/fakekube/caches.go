package fakekube

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

// Client is the client of controllers, over these objects.
func (c *Cluster) Client() *kube.Client { return kube.NewClient(c, c) }

// Served is that of *watch.Hub.
func (c *Cluster) Served(gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, bool) {
	key := object.Key{Group: gvk.Group, Kind: gvk.Kind, Namespace: namespace, Name: name}
	o := c.Object(key)
	return o, o != nil && !c.Uncached[key]
}

// Select is that of *watch.Hub.
func (c *Cluster) Select(gvk schema.GroupVersionKind, namespace string, selector labels.Selector) (out []*unstructured.Unstructured) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range c.keys(func(o *unstructured.Unstructured) bool {
		return o.GroupVersionKind().GroupKind() == gvk.GroupKind() && (namespace == "" || o.GetNamespace() == namespace) && selector.Matches(labels.Set(o.GetLabels()))
	}) {
		if !c.Uncached[key] {
			out = append(out, c.objects[key].DeepCopy())
		}
	}
	return out
}

// State is that of *watch.Hub.
func (c *Cluster) State(gvk schema.GroupVersionKind, _ watch.Selection) watch.State {
	if k := c.Kinds[gvk.GroupKind()]; k.State.Phase != watch.Unwatched {
		return k.State
	} else if k.Unserved {
		return watch.State{Phase: watch.Unavailable, Reason: watch.WaitingForKind, Message: "there is no kind " + gvk.Kind}
	}
	return watch.State{Phase: watch.Synced}
}

// Serve is that of *watch.Hub; see Notify.
func (c *Cluster) Serve(gvk schema.GroupVersionKind, onEvent func(object.Key, watch.Cause)) *watch.Serving {
	c.handlers[gvk] = append(c.handlers[gvk], onEvent)
	return nil
}

// Notify tells those who serve a kind of a change: of an object, or, without a name, of the
// kind's state.
func (c *Cluster) Notify(gvk schema.GroupVersionKind, namespace, name string) {
	for _, onEvent := range c.handlers[gvk] {
		onEvent(object.Key{Group: gvk.Group, Kind: gvk.Kind, Namespace: namespace, Name: name}, watch.Cause{})
	}
}

// Write is that of *watch.Hub.
func (c *Cluster) Write(_ *unstructured.Unstructured, _ watch.Subscriber, do func() (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	return do()
}

// Writing is that of *watch.Hub.
func (c *Cluster) Writing(schema.GroupVersionKind, string, string, watch.Subscriber) (done func()) {
	return func() {}
}

// Record is that of *watch.Hub: the caches have what is stored.
func (c *Cluster) Record(*unstructured.Unstructured, watch.Subscriber) {}

// RecordGone is that of *watch.Hub.
func (c *Cluster) RecordGone(schema.GroupVersionKind, string, string, string, watch.Subscriber) {}

// Forget is that of *watch.Hub.
func (c *Cluster) Forget(s watch.Subscriber) { delete(c.Watched, s.Key) }

// Begin is that of *watch.Hub.
func (c *Cluster) Begin(s watch.Subscriber) *Lease { return &Lease{cluster: c, subscriber: s.Key} }

// Lease is what watch.Lease is.
type Lease struct {
	cluster    *Cluster
	subscriber object.Key
	wants      []string
}

func (l *Lease) want(kind schema.GroupVersionKind, what string) watch.State {
	l.wants = append(l.wants, kind.Kind+" "+what)
	return l.cluster.State(kind, watch.All())
}

// Want is that of *watch.Lease.
func (l *Lease) Want(t watch.Target) watch.State { return l.want(t.Kind(), t.Selection().String()) }

// Object is that of *watch.Lease.
func (l *Lease) Object(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, watch.State) {
	state := l.want(kind, (object.Key{Namespace: namespace, Name: name}).String()[1:])
	if state.Phase != watch.Synced {
		return nil, state
	}
	found, ok := l.cluster.Served(kind, namespace, name)
	if !ok {
		return nil, state
	}
	return found, state
}

// Child is that of *watch.Lease.
func (l *Lease) Child(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, watch.State) {
	found, state := l.Object(kind, namespace, name)
	if found == nil || found.GetLabels()[v1alpha1.ApplySetPartOfLabel] == "" {
		return nil, state
	}
	return found, state
}

// Children is that of *watch.Lease.
func (l *Lease) Children(kind schema.GroupVersionKind, owner string) ([]*unstructured.Unstructured, watch.State) {
	return l.Matching(kind, "", labels.SelectorFromSet(labels.Set{v1alpha1.ApplySetPartOfLabel: owner}))
}

// Matching is that of *watch.Lease.
func (l *Lease) Matching(kind schema.GroupVersionKind, namespace string, selector labels.Selector) ([]*unstructured.Unstructured, watch.State) {
	state := l.want(kind, namespace+" "+selector.String())
	if state.Phase != watch.Synced {
		return nil, state
	}
	return l.cluster.Select(kind, namespace, selector), state
}

// Commit is that of *watch.Lease.
func (l *Lease) Commit() {
	slices.Sort(l.wants)
	l.cluster.Watched[l.subscriber] = slices.Compact(l.wants)
}

// Discard is that of *watch.Lease.
func (l *Lease) Discard() {}
