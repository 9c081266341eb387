package definition

import (
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/kube/queue"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

// newServed makes the reconciler of a kind.
type newServed = func(d *v1.CompositeResourceDefinition, kind schema.GroupVersionKind, wake func()) Served

// serve starts the controller of a kind once the API server serves it, in the working
// version and for the current UID of the definition.
func (r *Dialect) serve(v *session, m *running, c *extv1.CustomResourceDefinition, make newServed) {
	if c == nil || !crd.IsEstablished(c) {
		return
	}
	kind, served := workingVersion(c)
	d, mark := r.servedBy(v)
	if !served || d == nil {
		return
	}
	key := v.Key
	if !m.Is(kind, v.GetUID()) {
		m.Replace(v.GetUID(), func() *queue.Controller {
			m.served = make(d, kind, func() { r.Wake(key) })
			r.setCompositions(m, d, mark)
			return r.Engine.Start(kind, r.Held(kind, m.served), func() { r.Wake(key) })
		}, func() {
			r.Runners.Stopped(m.served)
			m.served, m.compositionsMark = nil, ""
		})
		return
	}
	if r.setCompositions(m, d, mark) {
		for _, o := range r.Hub.Select(kind, "", labels.Everything()) {
			m.Enqueue(object.KeyOf(o), watch.Background)
		}
	}
}

// setCompositions sets the compositions of a kind's reconciler, if they have changed.
func (r *Dialect) setCompositions(m *running, d *v1.CompositeResourceDefinition, mark string) (changed bool) {
	compositions, revisions, cacheMark, complete := r.Compositions.compositionsFor(d.CompositeKind().GroupKind())
	if !complete || m.compositionsMark == mark+cacheMark {
		return false
	}
	m.compositionsMark = mark + cacheMark
	m.served.SetSnapshot(Snapshot{Definition: d, Compositions: compositions, Revisions: revisions})
	return true
}

// servedBy is the definition that the kinds are served by, with its digest: the last good one.
// If that is unknown, it is the definition itself, even if it is invalid: its objects must be
// reconciled, and their deletion only needs their kind.
func (r *Dialect) servedBy(v *session) (d *v1.CompositeResourceDefinition, mark string) {
	if d := r.lastGood(v); d != nil {
		return d, v.memory.goodMark
	}
	if v.definition == nil {
		return nil, ""
	}
	return v.definition, object.Digest([]any{v.definition.UID, v.definition.Spec})
}
