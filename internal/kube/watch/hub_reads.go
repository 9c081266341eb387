package watch

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/internal/object"
)

// The objects that reads return are shared and read-only: DeepCopy one to change it. They are compact: they keep only
// the managed fields of Config.FieldManager and the entries that Config.IsForeignEntry selects.
//
// The reads of a Hub are for objects that are watched already; those of a Lease (lease_reads.go) begin the watch.

// GetCached returns an object of a kind that has a KindWatch, from the store of the watch of
// the whole kind and from no other: so the KindWatch reports each change of what was read.
func (h *Hub) GetCached(gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, bool) {
	a := h.wholeKindActor(gvk)
	if a == nil {
		return nil, false
	}
	return a.store.get(objectName{namespace, name})
}

// Refresh reads a watched object from the API server, and stores it in the caches. Found reports whether it exists. A
// cache may lag behind the watch of another kind.
func (h *Hub) Refresh(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (found bool, err error) {
	resource, err := h.env.Resolve(ctx, gvk)
	if err != nil {
		return false, err
	}
	live, err := readLive(ctx, h.env.Client.Resource(resource.GVR).Namespace(namespace), name)
	if err != nil || live == nil {
		return false, err
	}
	h.Record(live, Subscriber{})
	return true, nil
}

// It returns nil if there is no object. A role that allows a watch need not allow to get single objects, and the list
// of one object needs no more than the watch. Listing is not tried first: the API server answers it from a cache, for
// which it may wait 100 ms.
func readLive(ctx context.Context, objects dynamic.ResourceInterface, name string) (*unstructured.Unstructured, error) {
	live, err := objects.Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		return live, nil
	case apierrors.IsNotFound(err):
		return nil, nil
	case !apierrors.IsForbidden(err):
		return nil, err
	}
	list, err := objects.List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if list.Items[i].GetName() == name { // not every server of an aggregated API knows the selector
			return &list.Items[i], nil
		}
	}
	return nil, nil
}

// It is nil if there is none.
func (h *Hub) wholeKindActor(gvk schema.GroupVersionKind) *actor {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if k := h.kinds[gvk]; k != nil {
		return k.actors.get(All())
	}
	return nil
}

// WasOrphaned reports whether the deletion of this incarnation of an object, of a kind that has a KindWatch, requested
// to orphan its dependents. The watch shows it by the orphan finalizer, also after the garbage collector has removed
// that again and no reconcile has read the object in between. It is unknown if the watch has not delivered the request
// itself: the object was being deleted already when it was listed, or only the answer to a write has shown that.
func (h *Hub) WasOrphaned(gvk schema.GroupVersionKind, o *unstructured.Unstructured) (orphaned, known bool) {
	a := h.wholeKindActor(gvk)
	if a == nil {
		return false, false
	}
	return a.store.wasOrphaned(nameOf(o), uidOf(o))
}

// DeletedDespiteFinalizers returns the last state of an object that the API server deleted
// although it had a finalizer that Config.KeepIfDeletedWith selects, and no deletion timestamp; nil
// if there is none. The server misses a finalizer that is added while it carries out a deletion.
// The kind must have a KindWatch.
// The state is kept until ForgetDeletedDespiteFinalizers, also while another object has the
// name.
func (h *Hub) DeletedDespiteFinalizers(gvk schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	a := h.wholeKindActor(gvk)
	if a == nil {
		return nil
	}
	return a.store.getDeletedDespiteFinalizers(objectName{namespace, name})
}

// ForgetDeletedDespiteFinalizers drops what DeletedDespiteFinalizers returns for an object.
func (h *Hub) ForgetDeletedDespiteFinalizers(gvk schema.GroupVersionKind, namespace, name string) {
	if a := h.wholeKindActor(gvk); a != nil {
		a.store.forgetDeletedDespiteFinalizers(objectName{namespace, name})
	}
}

// Select returns the objects that a Matching target of the same namespace and selector
// watches, sorted by namespace and name. It iterates over every object of the selection, or
// of the kind if that is watched as a whole.
func (h *Hub) Select(gvk schema.GroupVersionKind, namespace string, selector labels.Selector) []*unstructured.Unstructured {
	a := h.actorFor(gvk, Labelled(namespace, selector))
	if a == nil {
		return nil
	}
	objects, _ := a.store.list(matchesIn(namespace, selector))
	return objects
}

// Keys returns the keys of the objects of a kind that has a KindWatch, in no order. It reads none of these.
func (h *Hub) Keys(gvk schema.GroupVersionKind) []object.Key {
	a := h.wholeKindActor(gvk)
	if a == nil {
		return nil
	}
	return a.store.keys(gvk.GroupKind())
}

// matchesIn matches the objects of a namespace, or of all if it is empty, by their labels.
func matchesIn(namespace string, selector labels.Selector) func(identity) bool {
	return func(p identity) bool {
		return (namespace == "" || p.namespace == namespace) && selector.Matches(p.labels)
	}
}

// State returns the state of the watch that serves the selection.
func (h *Hub) State(gvk schema.GroupVersionKind, s Selection) State {
	if a := h.actorFor(gvk, s); a != nil {
		return a.current()
	}
	return State{}
}

// It is the selection's own actor, the namespace's for a single object, the actor of all namespaces for managed objects
// of one, or the whole kind's. Of several it is the first in sync, or the last; nil if there is none.
func (h *Hub) actorFor(gvk schema.GroupVersionKind, s Selection) *actor {
	h.mu.RLock()
	defer h.mu.RUnlock()
	k := h.kinds[gvk]
	if k == nil {
		return nil
	}
	var found *actor
	for _, a := range [...]*actor{k.actors.get(s), k.joined(s), k.inAllNamespaces(s), k.actors.get(All())} {
		if a == nil {
			continue
		}
		if found = a; a.current().Phase == Synced {
			break
		}
	}
	return found
}

// It is nil if there is none.
func (k *kind) joined(s Selection) *actor {
	if s.class() != "one" || s.namespace == "" {
		return nil
	}
	return k.actors.get(InNamespace(s.namespace))
}

// It is the actor of managed objects for a selection of the managed objects of one namespace; nil if there is none.
func (k *kind) inAllNamespaces(s Selection) *actor {
	if !s.isManagedIn() {
		return nil
	}
	return k.actors.get(Managed())
}

// actorsHolding returns the actors that may store the object of a selection by One: the actors of the whole kind, of
// managed objects, of the object, and of selections by labels or namespace.
func (h *Hub) actorsHolding(gvk schema.GroupVersionKind, one Selection) []*actor {
	h.mu.RLock()
	defer h.mu.RUnlock()
	k := h.kinds[gvk]
	if k == nil {
		return nil
	}
	out := make([]*actor, 0, 4)
	for _, s := range [...]Selection{All(), Managed(), ManagedIn(one.namespace), one} {
		if a := k.actors.get(s); a != nil && !slices.Contains(out, a) { // of a cluster-scoped object ManagedIn is Managed
			out = append(out, a)
		}
	}
	return slices.Concat(out, k.several)
}
