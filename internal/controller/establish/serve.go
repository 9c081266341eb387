package establish

import (
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/crd"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/watch"
)

// serve starts what serves the definition's kinds, or gives what runs the world as it is
// now.
func (r *Reconciler) serve(v *visit) {
	composite, claim := r.owned(v)
	r.attend(v, &v.entry.composite, composite, r.Kinds.Composite)
	r.attend(v, &v.entry.claim, claim, r.Kinds.Claim)
}

// maker makes what serves a kind.
type maker = func(d *v1.CompositeResourceDefinition, kind schema.GroupVersionKind, wake func()) Served

// attend sees to it that a kind of the definition's is served, once the API server serves
// it: in the version that is worked in, and for this incarnation of the definition.
func (r *Reconciler) attend(v *visit, s *serving, c *extv1.CustomResourceDefinition, make maker) {
	if c == nil || !crd.Established(c) {
		return
	}
	kind, served := version(c)
	d, mark := r.servedBy(v)
	if !served || d == nil {
		return
	}
	if s.controller == nil || s.controller.Kind != kind || s.of != v.raw.GetUID() {
		s.halt()
		s.of = v.raw.GetUID()
		s.served = make(d, kind, func() { r.wake(v.key) })
		r.use(s, d, mark)
		s.controller = r.Engine.Start(kind, r.Held(kind, s.served), func() { r.wake(v.key) })
		return
	}
	if r.use(s, d, mark) {
		for _, o := range r.Hub.Select(kind, "", labels.Everything()) {
			s.controller.Wake(object.KeyOf(o), watch.Background)
		}
	}
}

// use gives what serves a kind the world as it is now, if it has changed.
func (r *Reconciler) use(s *serving, d *v1.CompositeResourceDefinition, mark string) (changed bool) {
	compositions, revisions, shelved, complete := r.Library.of(d.CompositeKind().GroupKind())
	if !complete || s.used == mark+shelved {
		return false
	}
	s.used = mark + shelved
	s.served.Use(Snapshot{Definition: d, Compositions: compositions, Revisions: revisions})
	return true
}

// servedBy is the definition that the kinds are served by, with what tells it apart from
// others. One whose last good state is not known is as it is: its objects must be looked
// after, and taking apart needs no more than their kind.
func (r *Reconciler) servedBy(v *visit) (d *v1.CompositeResourceDefinition, mark string) {
	if d := r.served(v); d != nil {
		return d, v.entry.goodMark
	}
	if v.definition == nil {
		return nil, ""
	}
	return v.definition, object.Digest([]any{v.definition.UID, v.definition.Spec})
}
