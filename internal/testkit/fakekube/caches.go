package fakekube

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

// Client returns a client of controllers.
func (c *Cluster) Client() *kube.Client { return kube.NewClient(c, c) }

// find returns the objects of a kind that match, sorted; in all namespaces where namespace is
// empty. The lock is held.
func (c *Cluster) find(gk schema.GroupKind, namespace string, selector labels.Selector) (out []*obj) {
	for _, key := range slices.SortedFunc(maps.Keys(c.objects), object.Key.Compare) {
		o := c.objects[key]
		if key.GroupKind() == gk && (namespace == "" || key.Namespace == namespace) && selector.Matches(labels.Set(o.GetLabels())) {
			out = append(out, o.DeepCopy())
		}
	}
	return out
}

// Notify calls the handlers of Serve for an object, or, without a name, for the kind's state.
func (c *Cluster) Notify(gvk schema.GroupVersionKind, namespace, name string) {
	for _, onEvent := range c.handlers[gvk] {
		onEvent(keyOf(gvk, namespace, name), watch.Cause{})
	}
}

func keyOf(gvk schema.GroupVersionKind, namespace, name string) object.Key {
	return object.Key{Group: gvk.Group, Kind: gvk.Kind, Namespace: namespace, Name: name}
}

// The following are methods of *watch.Hub. The caches hold what is stored, except Uncached.

func (c *Cluster) GetCached(gvk schema.GroupVersionKind, namespace, name string) (*obj, bool) {
	key := keyOf(gvk, namespace, name)
	o := c.Object(key)
	return o, o != nil && !c.Uncached[key]
}

func (c *Cluster) Select(gvk schema.GroupVersionKind, namespace string, selector labels.Selector) []*obj {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(c.find(gvk.GroupKind(), namespace, selector), func(o *obj) bool { return c.Uncached[object.KeyOf(o)] })
}

func (c *Cluster) State(gvk schema.GroupVersionKind, _ watch.Selection) watch.State {
	if k := c.Kinds[gvk.GroupKind()]; k.State.Phase != watch.Unwatched {
		return k.State
	} else if k.Unserved {
		return watch.State{Phase: watch.Unavailable, Reason: watch.WaitingForKind, Message: "there is no kind " + gvk.Kind}
	}
	return watch.State{Phase: watch.Synced}
}

func (c *Cluster) WatchKind(gvk schema.GroupVersionKind, onEvent func(object.Key, watch.Cause)) *watch.KindWatch {
	c.handlers[gvk] = append(c.handlers[gvk], onEvent)
	return nil
}

func (c *Cluster) Write(_ watch.Subscriber, do func() (*obj, error)) (*obj, error) {
	return do()
}

func (c *Cluster) Record(o *obj, _ watch.Subscriber) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.Uncached, object.KeyOf(o))
}

func (c *Cluster) RecordGone(schema.GroupVersionKind, string, string, string, watch.Subscriber) {}

func (c *Cluster) Forget(s watch.Subscriber) { delete(c.Watched, s.Key) }

func (c *Cluster) Begin(s watch.Subscriber) *Lease { return &Lease{cluster: c, subscriber: s.Key} }

// Lease implements the methods of watch.Lease, and notes what it reads.
type Lease struct {
	cluster    *Cluster
	subscriber object.Key
	reads      []string
}

func (l *Lease) read(kind schema.GroupVersionKind, what string) watch.State {
	l.reads = append(l.reads, kind.Kind+" "+what)
	return l.cluster.State(kind, watch.All())
}

func (l *Lease) Watch(t watch.Target) watch.State { return l.read(t.Kind(), t.Selection().String()) }

func (l *Lease) Object(kind schema.GroupVersionKind, namespace, name string) (*obj, watch.State) {
	state := l.read(kind, (object.Key{Namespace: namespace, Name: name}).String()[1:])
	if o, ok := l.cluster.GetCached(kind, namespace, name); ok && state.Phase == watch.Synced {
		return o, state
	}
	return nil, state
}

func (l *Lease) Child(kind schema.GroupVersionKind, namespace, name string) (*obj, watch.State) {
	if o, state := l.Object(kind, namespace, name); o == nil || o.GetLabels()[v1alpha1.ApplySetPartOfLabel] != "" {
		return o, state
	}
	return nil, watch.State{Phase: watch.Synced}
}

func (l *Lease) Children(kind schema.GroupVersionKind, owner string) ([]*obj, watch.State) {
	return l.Matching(kind, "", labels.SelectorFromSet(labels.Set{v1alpha1.ApplySetPartOfLabel: owner}))
}

func (l *Lease) Matching(kind schema.GroupVersionKind, namespace string, selector labels.Selector) ([]*obj, watch.State) {
	state := l.read(kind, namespace+" "+selector.String())
	if state.Phase != watch.Synced {
		return nil, state
	}
	return l.cluster.Select(kind, namespace, selector), state
}

func (l *Lease) Commit() {
	slices.Sort(l.reads)
	l.cluster.Watched[l.subscriber] = slices.Compact(l.reads)
}

func (l *Lease) Discard() {}
