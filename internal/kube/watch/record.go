package watch

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/object"
)

// Write makes one write. When it returns, its answer is in the caches.
func (h *Hub) Write(writer Subscriber, do func() (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	answer, err := do()
	if err == nil {
		h.Record(answer, writer)
	}
	return answer, err
}

// Record stores the answer to a write, so reads see it before the watch delivers it, and wakes all subscribers
// concerned except the writer. The watch's event wakes no subscriber then: the store already has its revision. If the
// event comes before the answer, it wakes all, and Config.Wrote says that the writer need not have been woken. An
// answer older than what the hub has changes nothing. The object is copied.
func (h *Hub) Record(o *unstructured.Unstructured, writer Subscriber) {
	at := identityOf(o)
	h.wrote(writer, Write{uidOf(o), revisionOf(o)})
	if h.env.Tracer != nil {
		h.env.Tracer.RecordWrite(object.KeyOf(o), uidOf(o), tracedRevision(revisionOf(o)), writer.Key)
	}
	for _, a := range h.actorsHolding(o.GroupVersionKind(), One(at.namespace, at.name)) {
		a.emit(a.store.recordWrite(a.compactor.compact(o), a.selects(at), time.Now()), writer)
	}
}

// RecordGone records that, by the answer to a write, this incarnation of an object no
// longer exists: its deletion is complete and does not wait for finalizers. Its events that
// are still in flight do not bring it back.
func (h *Hub) RecordGone(gvk schema.GroupVersionKind, namespace, name, uid string, writer Subscriber) {
	h.env.Tracer.RecordWrite(object.Key{Group: gvk.Group, Kind: gvk.Kind, Namespace: namespace, Name: name}, uid, "", writer.Key)
	h.wrote(writer, Write{uid, Gone})
	for _, a := range h.actorsHolding(gvk, One(namespace, name)) {
		a.emit(a.store.recordDeletion(objectName{namespace, name}, uid, time.Now()), writer)
	}
}

func (h *Hub) wrote(writer Subscriber, w Write) {
	if h.env.Wrote != nil {
		h.env.Wrote(writer, w)
	}
}

func (a *actor) selects(at identity) bool {
	s := a.selection
	switch {
	case s.managed:
		return at.labels.Has(a.env.ManagedLabel) && (s.namespace == "" || at.namespace == "" || s.namespace == at.namespace)
	case s.name != "":
		return at.objectName == objectName{s.namespace, s.name}
	default:
		return (s.namespace == "" || s.namespace == at.namespace) && a.filter.Matches(at.labels)
	}
}
