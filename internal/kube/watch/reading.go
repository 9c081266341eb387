package watch

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Reading what a lease wants gives objects and a state that belong together: while
// the state is Synced, what isn't among the objects doesn't exist. Asking for the
// state and then for the objects wouldn't do, since a kind may go in between.

// Children wants the managed objects of an owner and returns those there are,
// sorted by namespace and name, with the state that says whether these are all.
func (l *Lease) Children(kind schema.GroupVersionKind, owner string) ([]*unstructured.Unstructured, State) {
	target := ChildrenOf(kind, owner)
	state := l.Want(target)
	a := l.hub.server(kind, target.selection)
	if a == nil {
		return nil, state // the hub has stopped
	}
	objects, complete := a.store.ownedBy(owner)
	return objects, a.stateOfReading(complete)
}

// Object wants a single object and returns it, nil if there is none, with the
// state that says whether that is so.
func (l *Lease) Object(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, State) {
	return l.single(Object(kind, namespace, name))
}

// single reads the object of a target by name.
func (l *Lease) single(target Target) (*unstructured.Unstructured, State) {
	state := l.Want(target)
	a := l.hub.server(target.kind, target.selection)
	if a == nil {
		return nil, state
	}
	object, complete := a.store.look(objectName{target.route.namespace, target.route.name})
	return object, a.stateOfReading(complete)
}

// Child wants a managed object by its name and returns it, nil if there is none, with
// the state that says whether that is so.
func (l *Lease) Child(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, State) {
	return l.single(Child(kind, namespace, name))
}

// Matching wants the objects that a selector matches, in one namespace or, if that
// is empty, in all, and returns those there are, sorted by namespace and name,
// with the state that says whether these are all.
func (l *Lease) Matching(kind schema.GroupVersionKind, namespace string, selector labels.Selector) ([]*unstructured.Unstructured, State) {
	target := Matching(kind, namespace, selector)
	state := l.Want(target)
	a := l.hub.server(kind, target.selection)
	if a == nil {
		return nil, state
	}
	objects, complete := a.store.list(within(namespace, selector))
	return objects, a.stateOfReading(complete)
}

// stateOfReading is the state for what was just read. That the store wasn't
// complete is known before the state says so.
func (a *actor) stateOfReading(complete bool) State {
	state := a.current()
	if state.Phase == Synced && !complete {
		state.Phase, state.Since = Syncing, time.Now()
	}
	return state
}
