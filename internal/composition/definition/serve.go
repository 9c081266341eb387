package definition

import (
	"strconv"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/kube/queue"
)

type newReconciler = func(d *v1.CompositeResourceDefinition, kind schema.GroupVersionKind, enqueueDefinition func()) InstanceReconciler

// serve starts the controller of a kind once the API server serves it, in the working
// version and for the current UID of the definition.
func (r *Dialect) serve(v *session, m *running, c *extv1.CustomResourceDefinition, make newReconciler) {
	if c == nil || !crd.IsEstablished(c) {
		return
	}
	kind, served := workingVersion(c)
	d, digest := r.servedBy(v)
	if !served || d == nil {
		return
	}
	key := v.Key
	if !m.Is(kind, v.GetUID()) {
		m.Replace(v.GetUID(), func() *queue.Controller {
			m.reconciler = make(d, kind, func() { r.EnqueueDefinition(key) })
			r.setCompositions(v, m, d, digest)
			return r.Engine.Start(kind, r.Held(kind, m.reconciler), func() { r.EnqueueDefinition(key) })
		}, func() {
			r.Reconcilers.Stopped(m.reconciler)
			m.reconciler, m.snapshotDigest = nil, ""
		})
		return
	}
	if r.setCompositions(v, m, d, digest) {
		m.EnqueueAll()
	}
}

func (r *Dialect) setCompositions(v *session, m *running, d *v1.CompositeResourceDefinition, digest string) (changed bool) {
	compositions, revisions, cacheDigest, complete := r.Compositions.compositionsFor(d.CompositeKind().GroupKind())
	foreign := r.compositesAreForeign(v, d)
	of := digest + cacheDigest + strconv.FormatBool(foreign)
	if !complete || m.snapshotDigest == of {
		return false
	}
	m.snapshotDigest = of
	m.reconciler.SetSnapshot(Snapshot{Definition: d, Compositions: compositions, Revisions: revisions, ForeignComposites: foreign})
	return true
}

// compositesAreForeign reports whether the composite kind belongs to another definition, or to another program.
func (r *Dialect) compositesAreForeign(v *session, d *v1.CompositeResourceDefinition) bool {
	if own, _ := r.ownedCRDs(v); own != nil {
		return false
	}
	_, exists := r.Config.Kinds.CRD(d.CompositeKind().GroupKind())
	return exists
}

// servedBy is the definition that the kinds are served by, with its digest: the last good one.
// If that is unknown, it is the definition itself, even if it is invalid: its objects must be
// reconciled, and their deletion only needs their kind.
func (r *Dialect) servedBy(v *session) (d *v1.CompositeResourceDefinition, digest string) {
	if d := r.lastGood(v); d != nil {
		return d, v.memory.goodDigest
	}
	if v.definition == nil {
		return nil, ""
	}
	return v.definition, digestOf(v.definition)
}
