package watch

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The reads of a lease return objects and a state that belong together: if the state is Synced, an object that is not
// returned does not exist. Separate calls for the state and the objects could not promise that, because the kind may be
// deleted in between.

// actorFor returns the actor that answers a read of a target: the one that serves it, or, until that is in sync, another
// that has the objects. It wakes the subscriber when it is in sync, and with each change from then on. Another one, in its
// grace period, may be behind, and does not wake those that it does not serve when its state changes or when it ends.
func (l *Lease) actorFor(t Target) *actor {
	l.hub.mu.RLock()
	serves := l.wanted[t].actor
	l.hub.mu.RUnlock()
	if serves != nil && serves.current().Phase == Synced {
		return serves
	}
	return l.hub.actorFor(t.kind, t.selection)
}

// Children watches the managed objects of an owner and returns them, sorted by namespace and name, with the state that
// reports whether these are all.
func (l *Lease) Children(kind schema.GroupVersionKind, owner string) ([]*unstructured.Unstructured, State) {
	target := ChildrenOf(kind, owner)
	state := l.Watch(target)
	a := l.actorFor(target)
	if a == nil {
		return nil, state // the hub has stopped
	}
	objects, complete := a.store.ownedBy(owner)
	return objects, a.stateOfRead(complete)
}

// ChildrenIn is Children with a watch for each of several namespaces, and the objects in these
// alone. The state is Synced if all are; otherwise it is the one that says most, with the
// messages of all that are unavailable for the same reason.
//
// The limits of watches apply to namespaces other than the instance's own, but for
// Limits.PerSubscriber: the objects are the instance's own.
func (l *Lease) ChildrenIn(kind schema.GroupVersionKind, namespaces []string, owner string) ([]*unstructured.Unstructured, State) {
	var objects []*unstructured.Unstructured
	var states []State
	for _, namespace := range namespaces {
		target := ChildrenIn(kind, namespace, owner)
		state := l.watch(target, true)
		a := l.actorFor(target)
		if a == nil || state.Reason == LimitExceeded {
			states = append(states, state)
			continue
		}
		found, complete := a.store.ownedBy(owner)
		for _, o := range found {
			if in := o.GetNamespace(); in == namespace || in == "" && namespace == namespaces[0] {
				objects = append(objects, o)
			}
		}
		states = append(states, a.stateOfRead(complete))
	}
	slices.SortFunc(objects, compareObjects)
	return objects, union(states)
}

// maxUnionMessages bounds how many messages the state of a union has.
const maxUnionMessages = 3

// The objects are spread over several watches.
func union(states []State) State {
	out := State{Phase: Synced} // in no namespace there is no object
	var messages []string
	for i, s := range states {
		switch {
		case i == 0 || rank(s) > rank(out):
			out, messages = s, nil
		case rank(s) == rank(out) && s.Since.Before(out.Since):
			out.Since = s.Since
		}
		if rank(s) == rank(out) && s.Message != "" && !slices.Contains(messages, s.Message) {
			messages = append(messages, s.Message)
		}
	}
	out.Generation = 0
	for _, s := range states {
		out.Generation += s.Generation
	}
	if more := len(messages) - maxUnionMessages; more > 0 {
		messages = append(messages[:maxUnionMessages], fmt.Sprintf("and %d more", more))
	}
	out.Message = strings.Join(messages, "; ")
	return out
}

// rank orders states by how much they say about why objects may be missing.
func rank(s State) int {
	switch {
	case s.Phase == Synced:
		return 0
	case s.Phase != Unavailable:
		return 1
	default:
		return 2 + slices.Index([]Reason{Degraded, LimitExceeded, WaitingForKind, Forbidden}, s.Reason)
	}
}

// Object watches a single object and returns it, nil if there is none, with the state that reports whether that is
// reliable.
func (l *Lease) Object(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, State) {
	target := Object(kind, namespace, name)
	return l.read(target, l.Watch(target))
}

// OwnObject is Object for an object that the instance consists of and that is not a managed object yet. An instance may
// have more of these than it may read of other objects, but the limits of its namespace and of all watches apply: its
// users may write what it refers to.
func (l *Lease) OwnObject(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, State) {
	target := Object(kind, namespace, name)
	return l.read(target, l.watch(target, true))
}

func (l *Lease) read(target Target, state State) (*unstructured.Unstructured, State) {
	a := l.actorFor(target)
	if a == nil || state.Reason == LimitExceeded {
		return nil, state
	}
	object, complete := a.store.getWithComplete(objectName{target.route.namespace, target.route.name})
	return object, a.stateOfRead(complete)
}

// Child watches a managed object by its name and returns it, nil if there is none, with the state that reports whether
// that is reliable.
func (l *Lease) Child(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, State) {
	target := Child(kind, namespace, name)
	return l.read(target, l.Watch(target))
}

// Matching watches the objects that a selector matches, in one namespace or, if that is empty, in all. It returns them
// sorted by namespace and name, with the state that reports whether these are all.
func (l *Lease) Matching(kind schema.GroupVersionKind, namespace string, selector labels.Selector) ([]*unstructured.Unstructured, State) {
	target := Matching(kind, namespace, selector)
	state := l.Watch(target)
	a := l.actorFor(target)
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
