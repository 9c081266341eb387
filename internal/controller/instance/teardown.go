package instance

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/plan"
	"github.com/espalier-dev/espalier/internal/report"
	"github.com/espalier-dev/espalier/internal/watch"
)

// takeApart removes a deleted instance's children in reverse order, then lets
// the instance go. It needs what the instance recorded and what the children
// carry, and nothing else: no definition, no graph, no expressions. What it is
// about to do is told before it is done, and what came of it after. Events of the
// children bring the next pass; nothing is polled.
func (r *Reconciler) takeApart(ctx context.Context, v *visit) outcome.Outcome {
	remains, err := r.observeRemains(ctx, v)
	if err != nil {
		return outcome.Fail(err)
	}
	removal := plan.Teardown(remains)
	if out := r.tellDeletion(ctx, v, removal); out.Settled() {
		return out
	}
	refused, out := r.carryOut(ctx, v, removal)
	if out.Settled() {
		return out
	}
	if refused {
		remains.Before, remains.Tried = v.told(), v.memory.tried
		removal = plan.Teardown(remains)
		if out := r.tellDeletion(ctx, v, removal); out.Settled() {
			return out
		}
	}
	if err := errors.Join(append(v.failures, v.lookup)...); err != nil {
		return outcome.Fail(err) // nothing else would bring another pass
	}
	return later(soonest(v.again, removal.Retry))
}

// carryOut makes the next move: the children's, or, when all have gone, that of the
// instance itself.
func (r *Reconciler) carryOut(ctx context.Context, v *visit, removal plan.Removal) (refused bool, out outcome.Outcome) {
	if !removal.Done {
		return r.move(ctx, v, removal.Move), outcome.Outcome{}
	}
	if out = r.unanswered(ctx, v); out.Settled() {
		return false, out
	}
	out = r.letGo(ctx, v)
	return !out.Settled(), out
}

// told is what was told last: by the status, or, where that has no room for it, as
// far as this process knows.
func (v *visit) told() report.Status {
	status := report.Read(v.instance)
	if status.Deletion == nil {
		status.Deletion = v.memory.deletion
	}
	return status
}

// later ends a pass that has nothing more to do before so long; 0 is until an
// event comes.
func later(d time.Duration) outcome.Outcome {
	if d > 0 {
		return outcome.Wait(d)
	}
	return outcome.Done()
}

// observeRemains gathers what an instance has left, from caches, and what earlier
// passes know. The lease is committed at once: whatever comes of this pass, what
// is left stays watched.
func (r *Reconciler) observeRemains(ctx context.Context, v *visit) (plan.Remains, error) {
	policy, err := r.policy(ctx, v)
	if err != nil {
		return plan.Remains{}, err
	}
	v.lease = r.World.Begin(watch.Subscriber{Key: v.key})
	defer v.lease.Commit()
	remains := plan.Remains{
		Instance: v.instance, Policy: policy, Before: v.told(),
		Released: inventory.IsReleasedElsewhere(v.instance, r.Definition),
		Unread:   map[schema.GroupVersionKind]plan.Blind{}, Now: r.Now(),
	}
	for _, gk := range r.recorded(v, &remains) {
		gvk, standing, err := r.Kinds.Standing(ctx, gk)
		if err != nil {
			v.lookup = err
			remains.Unread[gk.WithVersion("")] = plan.Blind{Problem: plan.Problem{Reason: plan.Unavailable, Message: err.Error()}}
		}
		if err != nil || standing == cluster.Gone {
			continue // of a kind that is gone there are no objects
		}
		children, state := v.lease.Children(gvk, v.owner.ID())
		if _, exists := r.Kinds.CRD(gk); !exists && state.Reason == watch.WaitingForKind {
			continue // what was known of it is old: it is gone
		}
		if blind := blindness(gvk, state); blind != nil {
			remains.Unread[gvk] = *blind
		}
		for _, child := range children {
			if inventory.Node(child) != "" {
				remains.Children = append(remains.Children, child)
			}
		}
	}
	r.leftReferred(v, &remains)
	r.observeUses(v, &remains, append(slices.Clone(remains.Children), v.instance)...)
	r.notice(ctx, v, append(slices.Clone(remains.Children), v.instance), remains.Now)
	remains.Tried = v.memory.tried
	return remains, nil
}

// recorded lists the kinds that an instance has children of. If what it recorded
// has been changed by somebody, the kinds that its definition writes stand in for
// that.
func (r *Reconciler) recorded(v *visit, remains *plan.Remains) []schema.GroupKind {
	recorded := inventory.Read(v.instance)
	if inventory.Intact(v.instance, v.owner) {
		return recorded.GroupKinds()
	}
	composer := r.composer.Load()
	if composer == nil {
		remains.Forged = true
		return recorded.GroupKinds()
	}
	var kinds []schema.GroupKind
	for _, gvk := range (*composer).Written() {
		kinds = append(kinds, gvk.GroupKind())
	}
	return recorded.Grow(inventory.Of(kinds)).GroupKinds()
}

// policy is what was asked for when the instance was deleted. The status tells,
// once it has been written; a second deletion may ask for more to stay.
func (r *Reconciler) policy(ctx context.Context, v *visit) (report.Policy, error) {
	before := report.ReadDeletion(v.instance)
	switch {
	case v.memory.policy == report.Orphan:
	case slices.Contains(v.instance.GetFinalizers(), orphanFinalizer), r.Hub.WasOrphaned(r.Kind, v.instance):
		v.memory.policy = report.Orphan
	case before != nil && before.Policy != "":
		v.memory.policy = before.Policy
	case v.memory.policy == "":
		orphaned, err := r.Cluster.WasOrphaned(ctx, v.instance)
		if err != nil {
			return "", err // nothing is touched before it is known
		}
		v.memory.policy = report.Background
		if orphaned {
			v.memory.policy = report.Orphan
		}
	}
	return v.memory.policy, nil
}

// letGo removes the finalizers that kept the instance: the definition's, in
// whatever incarnation. What others keep it for, the next pass tells. It doesn't
// settle the pass when it is refused.
func (r *Reconciler) letGo(ctx context.Context, v *visit) outcome.Outcome {
	ours := slices.DeleteFunc(slices.Clone(v.instance.GetFinalizers()), func(f string) bool { return !inventory.IsFinalizer(f) })
	answer, err := r.Cluster.RemoveFinalizers(ctx, v.instance, ours, v1alpha1.InstanceManager)
	if cluster.IsGone(err) {
		return outcome.Done()
	}
	if err != nil {
		reason, message := r.Cluster.WhyNot(ctx, v.instance, "patch", err)
		v.memory.try(v.instance, func(t plan.Trial) plan.Trial {
			return t.Refused(reason, "the finalizer can't be taken off: "+message, v.instance, r.Now())
		})
		logr.FromContextOrDiscard(ctx).Info("the finalizer can't be taken off", "reason", reason, "message", message)
		return outcome.Outcome{}
	}
	if len(answer.GetFinalizers()) > 0 {
		r.Hub.Record(answer, watch.Subscriber{Key: v.key})
		v.memory.try(answer, func(plan.Trial) plan.Trial { return plan.Trial{Noticed: r.Now()} })
		return outcome.Wait(lookAgain)
	}
	r.Hub.RecordGone(r.Kind, v.key.Namespace, v.key.Name, string(v.instance.GetUID()), watch.Subscriber{Key: v.key})
	r.World.Forget(watch.Subscriber{Key: v.key})
	r.Layers.Forget(v.instance.GetUID())
	r.memories.forget(v.key)
	r.forgetUses(v.key, nil)
	return outcome.Done()
}

// lookAgain is how long others may take to take off their finalizers before
// anything is told of them.
const lookAgain = 100 * time.Millisecond

// orphanFinalizer is put on by the API server for the garbage collector when a
// deletion asks for dependents to be left in place.
const orphanFinalizer = "orphan"

// notice notes since when children have been on their way, and looks up whose
// finalizers keep those that stay: the caches hold our own managed fields only.
func (r *Reconciler) notice(ctx context.Context, v *visit, objects []*unstructured.Unstructured, now time.Time) {
	lookups := 0
	for _, o := range objects {
		if o.GetDeletionTimestamp() == nil {
			continue
		}
		t := v.memory.try(o, func(t plan.Trial) plan.Trial { return t.Seen(o, now) })
		if now.Sub(t.Noticed) < patienceWith(o) || t.Knows(o) || lookups == mostLookups {
			continue
		}
		if o.GetUID() == v.instance.GetUID() && slices.ContainsFunc(o.GetFinalizers(), inventory.IsFinalizer) {
			continue // it is kept here
		}
		lookups++
		live, err := r.Cluster.Get(ctx, o.GroupVersionKind(), o.GetNamespace(), o.GetName())
		if err == nil && live.GetUID() == o.GetUID() {
			v.memory.try(o, func(t plan.Trial) plan.Trial { t.Finalizers = finalizersOf(live); return t })
		}
	}
}

// patienceWith is how long an object may be on its way before it is looked up who
// keeps it. An instance tells for itself what does, unless nobody serves it.
func patienceWith(o *unstructured.Unstructured) time.Duration {
	if slices.ContainsFunc(o.GetFinalizers(), inventory.IsFinalizer) {
		return lookLater
	}
	return lookAgain
}

// lookLater is when it is looked up who keeps an instance, shortly before that is
// told.
const lookLater = 12 * time.Second

// mostLookups bounds how many objects a pass reads to tell who keeps them.
const mostLookups = 10
