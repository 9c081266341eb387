package watch

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Record takes the answer to a write, so that reads have it before the watch
// delivers it, and wakes all whom it concerns except the writer. The watch's
// echo of it wakes nobody: the store is at its revision already. An echo that is
// faster than the answer needs Writing. An answer that the hub is past already
// changes nothing; the object is copied.
func (h *Hub) Record(o *unstructured.Unstructured, writer Subscriber) {
	at := placeOf(o)
	for _, a := range h.holders(o.GroupVersionKind(), One(at.namespace, at.name)) {
		a.writes.addAnswer(at.objectName, writer, incarnation{uidOf(o), revisionOf(o)})
		a.emit(a.store.wrote(a.compactor.compact(o), a.selects(at), time.Now()), writer)
	}
}

// RecordGone takes the answer to a write that this incarnation of an object no
// longer exists: a deletion that was completed, not one that waits for
// finalizers. Events of it that are still on their way don't bring it back.
func (h *Hub) RecordGone(gvk schema.GroupVersionKind, namespace, name, uid string, writer Subscriber) {
	for _, a := range h.holders(gvk, One(namespace, name)) {
		a.writes.addAnswer(objectName{namespace, name}, writer, incarnation{uid, forever})
		a.emit(a.store.wroteGone(objectName{namespace, name}, uid, time.Now()), writer)
	}
}

// selects tells whether an object belongs to the actor's selection.
func (a *actor) selects(at place) bool {
	s := a.selection
	switch {
	case s.managed:
		return at.labels.Has(a.world.Managed)
	case s.name != "":
		return at.objectName == objectName{s.namespace, s.name}
	default:
		return (s.namespace == "" || s.namespace == at.namespace) && a.filter.Matches(at.labels)
	}
}
