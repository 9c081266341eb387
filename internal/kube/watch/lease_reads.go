package watch

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The reads of a lease return objects and a state that belong together: if the state is Synced,
// an object that is not returned does not exist. Separate calls for the state and the objects
// could not promise that, since the kind may be deleted in between.

// Children watches the managed objects of an owner and returns them, sorted by namespace
// and name, with the state that says whether these are all.
func (l *Lease) Children(kind schema.GroupVersionKind, owner string) ([]*unstructured.Unstructured, State) {
	target := ChildrenOf(kind, owner)
	state := l.Watch(target)
	a := l.hub.actorFor(kind, target.selection)
	if a == nil {
		return nil, state // the hub has stopped
	}
	objects, complete := a.store.ownedBy(owner)
	return objects, a.stateOfRead(complete)
}

// Object watches a single object and returns it, nil if there is none, with the state that
// says whether that is reliable.
func (l *Lease) Object(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, State) {
	target := Object(kind, namespace, name)
	return l.read(target, l.Watch(target))
}

// OwnObject is Object for an object that the instance consists of and that is not a managed object
// yet. An instance may have more of these than it may read of others, but the limits of its
// namespace and of all watches apply: its users may write what it refers to.
func (l *Lease) OwnObject(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, State) {
	target := Object(kind, namespace, name)
	return l.read(target, l.watch(target, true))
}

// read reads the object of a target by name, which is watched with this state.
func (l *Lease) read(target Target, state State) (*unstructured.Unstructured, State) {
	a := l.hub.actorFor(target.kind, target.selection)
	if a == nil || state.Reason == LimitExceeded {
		return nil, state
	}
	object, complete := a.store.getWithComplete(objectName{target.route.namespace, target.route.name})
	return object, a.stateOfRead(complete)
}

// Child watches a managed object by its name and returns it, nil if there is none, with the
// state that says whether that is reliable.
func (l *Lease) Child(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, State) {
	target := Child(kind, namespace, name)
	return l.read(target, l.Watch(target))
}

// Matching watches the objects that a selector matches, in one namespace or, if that is
// empty, in all. It returns them sorted by namespace and name, with the state that says
// whether these are all.
func (l *Lease) Matching(kind schema.GroupVersionKind, namespace string, selector labels.Selector) ([]*unstructured.Unstructured, State) {
	target := Matching(kind, namespace, selector)
	state := l.Watch(target)
	a := l.hub.actorFor(kind, target.selection)
	if a == nil || state.Reason == LimitExceeded {
		return nil, state
	}
	objects, complete := a.store.list(matchesIn(namespace, selector))
	return objects, a.stateOfRead(complete)
}

// stateOfRead returns the state that belongs to a read. The store may be incomplete before
// the state says so.
func (a *actor) stateOfRead(complete bool) State {
	state := a.current()
	if state.Phase == Synced && !complete {
		state.Phase, state.Since = Syncing, time.Now()
	}
	return state
}
