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
func (v *session) serve(m *running, c *extv1.CustomResourceDefinition, make newReconciler) {
	if c == nil || !crd.IsEstablished(c) {
		return
	}
	kind, served := workingVersion(c)
	d, digest := v.servedBy()
	if !served || d == nil {
		return
	}
	key := v.Key
	if !m.Is(kind, v.GetUID()) {
		m.Replace(v.GetUID(), func() *queue.Controller {
			m.reconciler = make(d, kind, func() { v.EnqueueDefinition(key) })
			v.setCompositions(m, d, digest)
			return v.Engine.Start(kind, v.Held(kind, m.reconciler), func() { v.EnqueueDefinition(key) })
		}, func() {
			v.Reconcilers.Stopped(m.reconciler)
			m.reconciler, m.snapshotDigest = nil, ""
		})
		return
	}
	if v.setCompositions(m, d, digest) {
		m.EnqueueAll()
	}
}

func (v *session) setCompositions(m *running, d *v1.CompositeResourceDefinition, digest string) (changed bool) {
	compositions, revisions, cacheDigest, complete := v.Compositions.compositionsFor(d.CompositeKind().GroupKind())
	foreign := v.compositesAreForeign(d)
	of := digest + cacheDigest + strconv.FormatBool(foreign)
	if !complete || m.snapshotDigest == of {
		return false
	}
	m.snapshotDigest = of
	m.reconciler.SetSnapshot(Snapshot{Definition: d, Compositions: compositions, Revisions: revisions, ForeignComposites: foreign})
	return true
}

// compositesAreForeign reports whether the composite kind belongs to another definition, or to another program.
func (v *session) compositesAreForeign(d *v1.CompositeResourceDefinition) bool {
	if own, _ := v.ownedCRDs(); own != nil {
		return false
	}
	_, exists := v.Config.Kinds.CRD(d.CompositeKind().GroupKind())
	return exists
}

// servedBy is the definition that the kinds are served by, with its digest: the last good one.
// If that is unknown, it is the definition itself, even if it is invalid: its objects must be
// reconciled, and their deletion only needs their kind.
func (v *session) servedBy() (d *v1.CompositeResourceDefinition, digest string) {
	if d := v.lastGood(); d != nil {
		return d, v.memory.goodDigest
	}
	if v.definition == nil {
		return nil, ""
	}
	return v.definition, digestOf(v.definition)
}
