package definition

import (
	"context"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/crd"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/revision"
	"github.com/espalier-dev/espalier/internal/tally"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/watch"
)

// retire lets a deleted definition go: once its instances are gone, or at once
// if it may leave orphans. Until then its kind stays served, so that they can
// be deleted.
func (r *Reconciler) retire(ctx context.Context, v *visit) outcome.Outcome {
	if !slices.Contains(v.raw.GetFinalizers(), v1alpha1.Finalizer) {
		r.halt(v.entry)
		return outcome.Done()
	}
	var vacated *apiextensionsv1.CustomResourceDefinition
	if current, kind, ok := r.owned(ctx, v); ok {
		if out := r.vacate(ctx, v, current, kind); out.Settled() {
			return out
		}
		vacated = current
	}
	r.halt(v.entry)
	if out := r.withdraw(ctx, v, vacated); out.Settled() {
		return out
	}
	if out := r.disband(ctx, v, vacated != nil && v.orphaning); out.Settled() {
		return out
	}
	kept := slices.DeleteFunc(slices.Clone(v.raw.GetFinalizers()), func(f string) bool { return f == v1alpha1.Finalizer })
	answer, err := r.Cluster.SetFinalizers(ctx, v.raw, kept, v1alpha1.InstanceManager)
	if cluster.IsGone(err) {
		return outcome.Done()
	}
	if err != nil {
		r.refused(v, telemetry.FailedFinalizer, "its finalizer can't be taken off", err)
		return outcome.Fail(fmt.Errorf("remove the finalizer: %w", err))
	}
	if len(kept) > 0 {
		r.record(v, answer)
	}
	r.Hub.Forget(watch.Subscriber{Key: v.key})
	return outcome.Done()
}

// vacate ends the serving of the kind, once no instance needs it any more.
func (r *Reconciler) vacate(ctx context.Context, v *visit, current *apiextensionsv1.CustomResourceDefinition, kind schema.GroupVersionKind) outcome.Outcome {
	orphans := v.raw.GetAnnotations()[v1alpha1.AllowOrphansAnnotation] == "true"
	left := r.instances(v, kind)
	if left.hold() && !orphans {
		return r.attend(ctx, v, current, kind, left)
	}
	// One that came in the meantime may have been claimed, and would keep our
	// finalizer with nobody to take it off. With the controller halted nobody
	// claims: what is counted now is all there is.
	r.halt(v.entry)
	left = r.instances(v, kind)
	if left.hold() && !orphans {
		return r.attend(ctx, v, current, kind, left)
	}
	v.orphaning = left.hold()
	if r.AllowCRDDeletion && !left.hold() {
		if err := r.publisher().Delete(ctx, current); err != nil {
			return outcome.Fail(err)
		}
	}
	return outcome.Outcome{}
}

// attend keeps serving the instances that a deleted definition waits for.
func (r *Reconciler) attend(ctx context.Context, v *visit, current *apiextensionsv1.CustomResourceDefinition, kind schema.GroupVersionKind, left remaining) outcome.Outcome {
	if v.account.Cluster != nil {
		r.start(v, kind)
	}
	if v.entry.serving != nil && v.entry.chooser == nil {
		r.attendAgain(ctx, v, current)
	}
	return r.reportRemaining(ctx, v, kind.Kind, left)
}

// attendAgain lets the instances be composed again by what served before a restart. It does
// its best: taking apart needs no graph.
func (r *Reconciler) attendAgain(ctx context.Context, v *visit, current *apiextensionsv1.CustomResourceDefinition) {
	v.lease = r.Hub.Begin(watch.Subscriber{Key: v.key})
	defer v.lease.Discard() // what is watched is who remains
	if r.recall(ctx, v).Settled() {
		return
	}
	v.step = revision.Step{Now: revision.StateOf(v.status)}
	graphs := map[int64]*graph.Graph{}
	if r.fallBack(ctx, v, current, graphs) != nil {
		return
	}
	serving := v.step.Now.Serving
	if graphs[serving] == nil {
		graphs[serving], _ = r.graphOf(ctx, v, serving, current)
	}
	if graphs[serving] != nil {
		v.step.Now.Rollout = nil
		r.use(v, r.chooser(ctx, v, current, graphs))
	}
}

// remaining is what is known of the instances that a deleted definition waits
// for.
type remaining struct {
	count int
	state watch.State
}

// hold says whether there are instances, or may be.
func (n remaining) hold() bool { return n.count > 0 || n.state.Phase != watch.Synced }

// tally is what of it is told in figures.
func (n remaining) tally(now time.Time) tally.Count {
	out := tally.Count{N: n.count, At: now}
	if n.state.Phase != watch.Synced {
		out.Unknown = string(n.state.Phase) + ": " + n.state.Message
	}
	return out
}

// instances counts the instances of the kind. Its lease wakes the definition
// when one goes or comes, or when they can be told again.
func (r *Reconciler) instances(v *visit, kind schema.GroupVersionKind) remaining {
	lease := r.Hub.Begin(watch.Subscriber{Key: v.key})
	all, state := lease.Matching(kind, "", labels.Everything())
	lease.Commit()
	if state.Phase != watch.Synced {
		return remaining{state: state}
	}
	return remaining{state: state, count: len(all)}
}

// withdraw takes back what was published and never served: a definition may go
// before its kind has come. It has no instances. One that has come in the meantime,
// unlike the one that was vacated, may have some, which nobody has counted.
func (r *Reconciler) withdraw(ctx context.Context, v *visit, vacated *apiextensionsv1.CustomResourceDefinition) outcome.Outcome {
	if !r.AllowCRDDeletion {
		return outcome.Outcome{}
	}
	for _, c := range r.Kinds.OwnedBy(v.owner) {
		switch {
		case c.DeletionTimestamp != nil, vacated != nil && vacated.UID == c.UID, crd.GroupKind(c) != v.wants:
			continue
		case crd.Established(c):
			r.wake(v.key)
			return outcome.Done()
		}
		err := r.publisher().DeleteUnchanged(ctx, c)
		if cluster.IsGone(err) {
			return outcome.Done() // it has changed: its event brings the next pass
		}
		if err != nil {
			return outcome.Fail(err)
		}
	}
	return outcome.Outcome{}
}
