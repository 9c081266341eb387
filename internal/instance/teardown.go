package instance

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/kube/writer"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// tearDown removes the children of a terminating instance in reverse order, and then its finalizer. It works without a
// composer; with one, it adds the kinds of a changed inventory. The status says what is about to be done before it is
// done. It goes on for as long as the answers say that children are gone: among many deletions, an instance with a
// begun deletion is not queued behind other ones for each wave of its children. Then events of children trigger the
// next reconcile; refused requests are retried with growing delay.
func (r *Reconciler) tearDown(ctx context.Context, s *subject) reconcile.Result {
	if wait := s.awaitOrphaning(r.Now()); wait > 0 {
		return reconcile.RequeueAfter(wait)
	}
	for began := r.Now(); ; {
		remove := r.deleteChild
		var gone atomic.Bool
		if r.Now().Sub(began) < teardownDuration {
			remove = r.deleteAndRecord(s, &gone)
		}
		out := r.tearDownWave(ctx, s, remove)
		switch {
		case out.Err != nil || !gone.Load():
			return out
		case ctx.Err() != nil:
			return reconcile.Fail(ctx.Err()) // no event follows
		}
	}
}

// teardownDuration is how long a reconcile begins further waves of children. A large instance must not occupy a
// worker for longer, nor exceed the time of one reconcile: events trigger the reconciles of what is left.
const teardownDuration = 10 * time.Second

// tearDownWave decides once about what is left, and makes the requests. It deletes children by the given function.
func (r *Reconciler) tearDownWave(ctx context.Context, s *subject, remove removeFunc) reconcile.Result {
	remains, err := r.observeRemains(ctx, s)
	if err != nil {
		return reconcile.Fail(err)
	}
	removal := plan.Teardown(remains.Remaining)
	if out := r.reportDeletion(ctx, s, remains, removal); out.IsFinal() {
		return out
	}
	refused, out := r.advanceTeardown(ctx, s, remains, removal, remove)
	if out.IsFinal() {
		return out
	}
	if refused {
		remains.Reported, remains.History = s.reportedStatus(), s.memory.deletionHistory
		removal = plan.Teardown(remains.Remaining)
		if out := r.reportDeletion(ctx, s, remains, removal); out.IsFinal() {
			return out
		}
	}
	if err := errors.Join(append(s.errs, remains.lookupErr)...); err != nil {
		return reconcile.Fail(err) // nothing else triggers another reconcile
	}
	return requeue(soonest(s.again, removal.Retry))
}

// awaitOrphaning is for how long to leave an instance to the garbage collector, which removes the owner
// references of its children and then its orphan finalizer. Both would change the same objects at the
// same time otherwise, and each conflict costs a read and another write.
func (s *subject) awaitOrphaning(now time.Time) time.Duration {
	if !slices.Contains(s.instance.GetFinalizers(), orphanFinalizer) {
		return 0
	}
	s.memory.policy = report.Orphan
	if s.memory.orphaningSince.IsZero() {
		s.memory.orphaningSince = now
	}
	return orphaningDelay - now.Sub(s.memory.orphaningSince)
}

// orphaningDelay is how long the garbage collector may take. It is not waited for longer: there may be
// none.
const orphaningDelay = time.Second

// advanceTeardown makes the next move: it deletes children or, when all are gone, removes the
// instance's finalizer.
func (r *Reconciler) advanceTeardown(ctx context.Context, s *subject, remains remnants, removal plan.Removal,
	remove removeFunc) (refused bool, out reconcile.Result) {
	if !removal.Done {
		return r.executeRemoval(ctx, s, removal.RemovalStep, remove), reconcile.Result{}
	}
	if out = r.findUnansweredWrites(ctx, s); out.IsFinal() {
		return false, out
	}
	if out = r.findLostChildren(ctx, s, remains); out.IsFinal() {
		return false, out
	}
	if slices.ContainsFunc(s.instance.GetFinalizers(), inventory.IsFinalizer) && r.releaseAll(ctx, s) {
		return true, reconcile.Result{}
	}
	return r.removeFinalizers(ctx, s)
}

// reportedStatus is what was reported last: by the status or, where that has no room for it, by
// what this process remembers.
func (s *subject) reportedStatus() report.Status {
	status := report.Read(s.instance)
	if status.Deletion == nil {
		status.Deletion = s.memory.deletion
	}
	return status
}

// A delay of 0 waits for an event.
func requeue(d time.Duration) reconcile.Result {
	if d > 0 {
		return reconcile.RequeueAfter(d)
	}
	return reconcile.Done()
}

// observeRemains gathers what is left of an instance from caches, and what earlier reconciles
// know. It makes requests for what caches lack: the deletion's policy (deletionPolicy), and the
// managers of at most maxFinalizerLookups finalizers (observeTerminating). Both are remembered.
// The lease is committed at once: whatever this reconcile comes to, what is left stays watched.
func (r *Reconciler) observeRemains(ctx context.Context, s *subject) (remains remnants, err error) {
	policy, err := r.deletionPolicy(ctx, s)
	if err != nil {
		return remains, err
	}
	s.lease = r.openLease(s.key)
	defer s.lease.Commit()
	remains.Remaining = plan.Remaining{
		Instance: s.instance, Defaults: r.defaultsOf(s.instance), Policy: policy, Reported: s.reportedStatus(),
		ReleasedElsewhere: inventory.IsReleasedElsewhere(s.instance, r.Definition),
		Unreadable:        map[schema.GroupVersionKind]plan.Unreadable{}, Now: r.Now(),
	}
	for _, gk := range r.recordedKinds(s, &remains.Remaining) {
		gvk, availability, err := r.Kinds.Availability(ctx, gk)
		if err != nil {
			remains.lookupErr = err
			remains.Unreadable[gk.WithVersion("")] = plan.Unreadable{Problem: plan.Problem{Reason: plan.Unavailable, Message: err.Error()}}
		}
		if err != nil || availability == kube.Gone {
			continue // of a kind that is gone there are no objects
		}
		children, state := r.readChildren(ctx, s, gvk)
		if state.Reason == watch.WaitingForKind && r.isGone(ctx, gk) {
			continue // since it was looked up
		}
		if unreadable := unavailability(gvk, state); unreadable != nil {
			remains.Unreadable[gvk] = *unreadable
		}
		for _, child := range children {
			if inventory.Node(child) != "" {
				remains.Children = append(remains.Children, child)
			}
		}
	}
	remains.ignored = r.ignoredOverrides(s, remains.Defaults, recordedPolicies(remains.Children))
	r.observeRemainingReferences(ctx, s, &remains.Remaining)
	r.observeUsages(s, &remains.Remaining, append(slices.Clone(remains.Children), s.instance)...)
	r.observeTerminating(ctx, s, append(slices.Clone(remains.Children), s.instance), remains.Now)
	remains.History = s.memory.deletionHistory
	return remains, nil
}

// remnants is what is left of an instance.
type remnants struct {
	plan.Remaining
	// ignored names the instance's annotations that its definition does not allow.
	ignored string
	// lookupErr is why a recorded kind cannot be looked up.
	lookupErr error
}

// That its watch has found nothing at its path does not say so: that may be the answer of a gateway that does not reach
// the API server.
func (r *Reconciler) isGone(ctx context.Context, gk schema.GroupKind) bool {
	_, availability, err := r.Kinds.Availability(ctx, gk)
	return err == nil && availability == kube.Gone
}

// Settings that are recorded on the instance count, within limits, only while there is no composer: a user who can
// write the instance can change them.
func (r *Reconciler) defaultsOf(instance *unstructured.Unstructured) inventory.Defaults {
	if composer := r.composer.Load(); composer != nil {
		return Choose(*composer, instance).Defaults()
	}
	return inventory.DefaultsOf(instance).WithoutDefinition()
}

// If another writer has changed the inventory, the kinds that its composer writes are added.
func (r *Reconciler) recordedKinds(s *subject, remains *plan.Remaining) []schema.GroupKind {
	recorded := s.owner.Recorded(s.instance)
	if s.owner.IsIntact(s.instance) {
		return recorded.GroupKinds()
	}
	composer := r.composer.Load()
	if composer == nil {
		remains.InventoryTampered = true
		return recorded.GroupKinds()
	}
	var kinds []schema.GroupKind
	for _, gvk := range (*composer).ChildKinds() {
		kinds = append(kinds, gvk.GroupKind())
	}
	return recorded.Union(inventory.Of(kinds)).GroupKinds()
}

// deletionPolicy is the propagation policy of the instance's deletion. The status holds it once
// it has been written; a second deletion may orphan the children.
func (r *Reconciler) deletionPolicy(ctx context.Context, s *subject) (report.Policy, error) {
	orphaned, known := r.Instances.WasOrphaned(r.Kind, s.instance)
	before := report.ReadDeletion(s.instance)
	switch {
	case s.memory.policy == report.Orphan:
	case orphaned, slices.Contains(s.instance.GetFinalizers(), orphanFinalizer):
		s.memory.policy = report.Orphan
	case before != nil && before.Policy != "":
		s.memory.policy = before.Policy
	case s.memory.policy != "":
	case known:
		s.memory.policy = report.Background
	default:
		return r.policyOfEarlierRevisions(ctx, s)
	}
	return s.memory.policy, nil
}

func (r *Reconciler) policyOfEarlierRevisions(ctx context.Context, s *subject) (report.Policy, error) {
	orphaned, err := r.self().WasOrphaned(ctx, s.instance)
	if apierrors.IsForbidden(err) && r.isDeletedWithNamespace(ctx, s) {
		orphaned, err = r.Controllers.WasOrphaned(ctx, s.instance)
	}
	if err != nil {
		return "", err // nothing is touched before it is known
	}
	s.memory.policy = report.Background
	if orphaned {
		s.memory.policy = report.Orphan
	}
	return s.memory.policy, nil
}

// The finalizers are the definition's, of whatever incarnation. If other finalizers keep the instance, the next
// reconcile reports that. The result is not final if the removal is refused.
func (r *Reconciler) removeFinalizers(ctx context.Context, s *subject) (refused bool, out reconcile.Result) {
	ours := slices.DeleteFunc(slices.Clone(s.instance.GetFinalizers()), func(f string) bool { return !inventory.IsFinalizer(f) })
	o := &writer.Object{Unstructured: s.instance}
	w := writer.Writer{Cluster: r.self(), Caches: r.Instances, Manager: v1alpha1.InstanceManager}
	gone, err := w.Release(ctx, o, ours...)
	if apierrors.IsForbidden(err) && r.isDeletedWithNamespace(ctx, s) {
		w.Cluster = r.Controllers
		gone, err = w.Release(ctx, o, ours...)
	}
	if kube.IsStale(err) {
		return false, reconcile.Conflict()
	}
	if err != nil {
		reason, message := r.self().DiagnoseError(ctx, s.instance, "patch", err)
		s.memory.updateAttempts(s.instance, func(a plan.DeletionAttempts) plan.DeletionAttempts {
			return a.Refused(report.Reason(reason), "the finalizer cannot be removed: "+message, s.instance, r.Now())
		})
		logr.FromContextOrDiscard(ctx).Info("the finalizer cannot be removed", "reason", reason, "message", message)
		return true, reconcile.Result{}
	}
	if !gone {
		// Our finalizer is gone: the wait for other finalizers begins now.
		s.memory.updateAttempts(o.Unstructured, func(plan.DeletionAttempts) plan.DeletionAttempts { return plan.DeletionAttempts{FirstSeen: r.Now()} })
		return false, reconcile.RequeueAfter(finalizerDelay)
	}
	r.Children.Forget(watch.Subscriber{Key: s.key})
	r.Layers.Forget(s.instance.GetUID())
	r.forgetMemory(s.key)
	r.forgetUsages(s.key, nil)
	return false, reconcile.Done()
}

// finalizerDelay is how long other controllers may take to remove their finalizers before the managers that added them
// are read.
const finalizerDelay = 100 * time.Millisecond

// orphanFinalizer is added by the API server for the garbage collector when a deletion is to
// orphan dependents.
const orphanFinalizer = "orphan"

// It records when objects began to terminate, and reads which managers added the finalizers of the ones that stay:
// caches hold our own managed fields only.
func (r *Reconciler) observeTerminating(ctx context.Context, s *subject, objects []*unstructured.Unstructured, now time.Time) {
	lookups := 0
	for _, o := range objects {
		if o.GetDeletionTimestamp() == nil {
			continue
		}
		attempts := s.memory.updateAttempts(o, func(a plan.DeletionAttempts) plan.DeletionAttempts { return a.Observed(o, now) })
		if now.Sub(attempts.FirstSeen) < lookupDelay(o) || attempts.KnowsFinalizersOf(o) || lookups == maxFinalizerLookups {
			continue
		}
		if o.GetUID() == s.instance.GetUID() && slices.ContainsFunc(o.GetFinalizers(), inventory.IsFinalizer) {
			continue // our own finalizer keeps it
		}
		lookups++
		live, err := r.Cluster.Get(ctx, o.GroupVersionKind(), o.GetNamespace(), o.GetName())
		if err == nil && live.GetUID() == o.GetUID() {
			s.memory.updateAttempts(o, func(a plan.DeletionAttempts) plan.DeletionAttempts { a.Finalizers = finalizersOf(live); return a })
		}
	}
}

// lookupDelay is how long an object may be terminating before the managers of its finalizers are
// read. An instance reports its own blockers, unless no controller serves it.
func lookupDelay(o *unstructured.Unstructured) time.Duration {
	if slices.ContainsFunc(o.GetFinalizers(), inventory.IsFinalizer) {
		return nestedInstanceDelay
	}
	return finalizerDelay
}

// nestedInstanceDelay is when the managers of a nested instance's finalizers are read: shortly
// before they are reported.
const nestedInstanceDelay = 12 * time.Second

// maxFinalizerLookups bounds how many objects a reconcile reads to name the managers of their
// finalizers.
const maxFinalizerLookups = 10
