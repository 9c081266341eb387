package definition

import (
	"context"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/kind"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/serving"
	"github.com/espalier-dev/espalier/internal/serving/ending"
	"github.com/espalier-dev/espalier/internal/serving/revision"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// Endings returns the one kind of a definition. A deleted definition waits until its instances are gone, or orphans
// them if its annotation allows that. Until then their controller runs, so they can be deleted.
func (v *session) Endings(ctx context.Context) []*serving.Ending {
	orphan := v.GetAnnotations()[v1alpha1.AllowOrphansAnnotation] == "true"
	e := &serving.Ending{
		Policy:    ending.Policy{Orphan: orphan, DeleteCRD: v.AllowCRDDeletion},
		Finalizer: v1alpha1.Finalizer,
		Running:   &v.memory.running,
	}
	if v.source.kind.Kind != "" {
		e.CRDName = kind.NameOf(schemaOf(v.Unstructured))
	}
	if current, served, ok := v.ownedCRD(ctx); ok {
		e.CRD, e.Kind = current, served
		e.Serve = func(ctx context.Context) { v.serveRemaining(ctx, e) }
	} else {
		e.CRD = v.unestablishedCRD()
	}
	e.Cleanup = func(ctx context.Context, orphaned bool) reconcile.Result {
		return v.releaseRevisions(ctx, orphaned)
	}
	return []*serving.Ending{e}
}

// unestablishedCRD is the CustomResourceDefinition that was published and never served: a definition may be
// deleted before its kind is established.
func (v *session) unestablishedCRD() *apiextensionsv1.CustomResourceDefinition {
	for _, c := range v.Kinds.CRDsOwnedBy(v.owner) {
		if crd.GroupKind(c) == v.source.kind && !crd.IsEstablished(c) {
			return c
		}
	}
	return nil
}

func (v *session) serveRemaining(ctx context.Context, e *serving.Ending) {
	if v.memory.running.Is(e.Kind, v.owner) && v.memory.composers != nil {
		return
	}
	if v.account.Cluster != nil {
		v.ensureController(e.Kind)
		v.setComposers(nil, v.account)
	}
	v.lease = v.Hub.Begin(watch.Subscriber{Key: v.Key})
	defer func() {
		v.lease.Discard() // only the remaining instances are watched
		v.lease = nil
	}()
	if v.loadRevisions(ctx).IsFinal() {
		v.lease.Commit() // it enqueues the definition
		return
	}
	fallback := v.fallbackAccount()
	if fallback.Cluster == nil {
		return
	}
	v.ensureController(e.Kind)
	v.setComposers(v.lastComposers(ctx, e.CRD), fallback)
}

// lastComposers are the composers that served before a restart, if they can be restored: the
// deletion of instances needs no graph.
func (v *session) lastComposers(ctx context.Context, current *apiextensionsv1.CustomResourceDefinition) *composers {
	v.rollout.step = revision.Step{Now: revision.StateOf(v.status)}
	graphs := map[int64]*graph.Graph{}
	if v.fallBack(ctx, current, graphs) != nil {
		return nil
	}
	serving := v.rollout.step.Now.Serving
	if graphs[serving] == nil {
		graphs[serving], _ = v.graphOf(ctx, serving, current)
	}
	if graphs[serving] == nil {
		return nil
	}
	v.rollout.step.Now.Rollout = nil
	return v.assembleComposers(ctx, current, graphs)
}
