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

// newServed makes what serves a kind.
type newServed = func(d *v1.CompositeResourceDefinition, kind schema.GroupVersionKind, wake func()) Served

// serve sees to it that a kind of the definition's is served, once the API server serves
// it: in the version that is worked in, and for this incarnation of the definition.
func (r *Dialect) serve(v *session, m *running, c *extv1.CustomResourceDefinition, make newServed) {
	if c == nil || !crd.Established(c) {
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
		}, func() { m.served, m.compositionsMark = nil, "" })
		return
	}
	if r.setCompositions(m, d, mark) {
		for _, o := range r.Hub.Select(kind, "", labels.Everything()) {
			m.Wake(object.KeyOf(o), watch.Background)
		}
	}
}

// setCompositions gives what serves a kind the compositions as they are now, if they have changed.
func (r *Dialect) setCompositions(m *running, d *v1.CompositeResourceDefinition, mark string) (changed bool) {
	compositions, revisions, shelved, complete := r.Compositions.compositionsFor(d.CompositeKind().GroupKind())
	if !complete || m.compositionsMark == mark+shelved {
		return false
	}
	m.compositionsMark = mark + shelved
	m.served.Use(Snapshot{Definition: d, Compositions: compositions, Revisions: revisions})
	return true
}

// servedBy is the definition that the kinds are served by, with what tells it apart from
// others. One whose last good state is not known is as it is: its objects must be looked
// after, and taking apart needs no more than their kind.
func (r *Dialect) servedBy(v *session) (d *v1.CompositeResourceDefinition, mark string) {
	if d := r.lastGood(v); d != nil {
		return d, v.memory.goodMark
	}
	if v.definition == nil {
		return nil, ""
	}
	return v.definition, object.Digest([]any{v.definition.UID, v.definition.Spec})
}
