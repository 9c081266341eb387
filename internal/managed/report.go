package managed

import (
	"context"
	"maps"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/kube/writer"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// report writes the status if it has changed, and returns when to reconcile again.
func (r *Reconciler) report(ctx context.Context, s *reconcileState, step operation.Step) reconcile.Result {
	before := condition.Read(s.object)
	generation := s.object.GetGeneration()
	conditions := before
	for kind, c := range map[string]operation.Condition{resource.Synced: step.Synced, resource.Ready: step.Ready} {
		if c.Reason != "" {
			conditions = conditions.Mark(v1alpha1.Condition{
				Type: kind, Status: c.Status, Reason: c.Reason, Message: c.Message, ObservedGeneration: s.generationOf(kind, step, before),
			}, r.Now())
		}
	}
	conditions = conditions.MarkProgress(s.progress(conditions, step), generation, r.Now())
	status, _, _ := unstructured.NestedMap(s.object.Object, "status")
	next := maps.Clone(status)
	if next == nil {
		next = map[string]any{}
	}
	if len(conditions) > 0 {
		next["conditions"] = readyFirst(conditions).Unstructured()
	}
	if step.Synced.Reason != "" { // an unchanged Synced is not about this generation
		next["observedGeneration"] = generation
		if requested := s.object.GetAnnotations()[resource.ReconcileRequestedAtAnnotation]; requested != "" {
			next["lastHandledReconcileAt"] = requested
		}
	}
	if o := s.state.Observed; o != nil && o.Presence == external.Present && o.AtProvider != nil && isBound(s, step) {
		next["atProvider"] = o.AtProvider
	}
	o := &writer.Object{Unstructured: s.object}
	wrote, out := r.writer().WriteStatus(ctx, o, next)
	if out.IsFinal() {
		return out
	}
	s.object = o.Unstructured
	if wrote {
		r.recordTransition(s, before, conditions)
	}
	switch {
	case step.Err != nil:
		return reconcile.FailAfter(step.Err, step.After)
	case step.After > 0 && s.isOperationOpen():
		return reconcile.Pending(jittered(step.After))
	case step.After > 0:
		return reconcile.RequeueAfter(jittered(step.After))
	}
	return reconcile.Done()
}

func (s *reconcileState) isOperationOpen() bool {
	return s.state.Binding != nil && s.state.Binding.Operation != nil
}

// While a change has not reached the external resource, the condition is still about the generation before.
func (s *reconcileState) generationOf(kind string, step operation.Step, before condition.Set) int64 {
	ready, reported := before.Get(resource.Ready)
	o := s.state.Observed
	isDifferent := o != nil && o.Presence == external.Present && o.UpToDate != external.Yes
	if kind == resource.Ready && reported && isDifferent && step.Synced.Status != condition.True {
		return ready.ObservedGeneration
	}
	return s.object.GetGeneration()
}

// progress is what the managed resource needs; nothing while it is paused or being deleted. A Ready resource stays
// without Reconciling while a request fails that changes nothing, such as an observation: what depends on it need not wait.
func (s *reconcileState) progress(conditions condition.Set, step operation.Step) condition.Progress {
	synced, reported := conditions.Get(resource.Synced)
	ready, _ := conditions.Get(resource.Ready)
	switch {
	case s.object.GetDeletionTimestamp() != nil, synced.Reason == resource.ReconcilePaused, !reported:
		return condition.Progress{}
	case step.NeedsAction:
		return condition.ProgressOf(synced, true)
	case synced.Status == condition.False && synced.Reason == resource.ReconcileError && ready.Status == condition.True && !s.isChangePending(step):
		return condition.Progress{}
	case synced.Status != condition.True:
		return condition.ProgressOf(synced, needsAction[synced.Reason])
	}
	return condition.ProgressOf(ready, false)
}

func (s *reconcileState) isChangePending(step operation.Step) bool {
	reported, _, _ := unstructured.NestedInt64(s.object.Object, "status", "observedGeneration")
	isNew := step.Synced.Reason != "" && reported != s.object.GetGeneration()
	isDifferent := s.state.Observed != nil && s.state.Observed.UpToDate == external.No
	return isNew || isDifferent || s.state.OperationErr != nil || condition.Read(s.object).IsTrue(condition.TypeReconciling)
}

// needsAction are the reasons of Synced that stay until a user acts. A ReconcileError is none, except where the step
// says so: the request is retried, and the answer of an external API never says that it will be the same.
var needsAction = map[string]bool{
	resource.CreateUnresolved: true, resource.NameReserved: true, resource.Conflict: true, resource.Disagreement: true,
	resource.Contested: true, resource.NotAllowed: true,
}

// Of another owner's resource, the status shows nothing that other objects could refer to.
func isBound(s *reconcileState, step operation.Step) bool {
	return s.state.Binding != nil && s.state.Binding.Ref != "" && step.Synced.Reason != resource.Conflict && step.Synced.Reason != resource.NotAllowed
}

func readyFirst(s condition.Set) condition.Set {
	if len(s) > 1 && s[0].Type != resource.Ready {
		if ready, ok := s.Get(resource.Ready); ok {
			return append(condition.Set{ready}, s.Remove(resource.Ready)...)
		}
	}
	return s
}

// recordTransition records an event where Synced becomes False, or False for another reason.
func (r *Reconciler) recordTransition(s *reconcileState, before, after condition.Set) {
	was, _ := before.Get(resource.Synced)
	is, _ := after.Get(resource.Synced)
	if is.Status == condition.False && (was.Status != is.Status || was.Reason != is.Reason) {
		r.Events.Event(s.object, telemetry.Warning, is.Reason, is.Message)
	}
}

// jittered spreads polls that would otherwise happen at the same time.
func jittered(d time.Duration) time.Duration {
	return d + rand.N(d/10+1)
}
