package instance

import (
	"context"
	"slices"

	"github.com/go-logr/logr"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// correctDrift takes back fields that another manager has taken over, and names that manager in
// an event. The caches keep our own managed fields only, so the name costs a request; drift is
// rare. Where the server doesn't let us own a field, because the schema doesn't know it, the
// write changes nothing and there is no event.
//
// While a field is contested, the status says so, and single corrections are no events.
func (r *Reconciler) correctDrift(ctx context.Context, s *reconcileState, step plan.Step) result {
	if len(step.ContestedFields) > 0 {
		return r.update(ctx, s, step, step.Current)
	}
	live, err := r.Cluster.Get(ctx, step.Object.GroupVersionKind(), step.Object.GetNamespace(), step.Object.GetName())
	if err != nil {
		logr.FromContextOrDiscard(ctx).V(1).Info("cannot read which manager changed a field", "object", describeObject(step), "error", err.Error())
		live = step.Current
	}
	res := r.update(ctx, s, step, step.Current)
	if res.answer == nil || res.answer.GetResourceVersion() == live.GetResourceVersion() {
		return res
	}
	r.Events.Event(s.instance, telemetry.Warning, plan.DriftCorrected,
		plan.CorrectionMessage(step.DescribeFields(step.LostFields), live, managersOfFields(live, step.Object, step.LostFields)))
	return res
}

// inspectDrift finds out, for a step that only reports drift, which fields were changed, and by which manager: a field
// that the server doesn't let us own hasn't been changed. It costs two requests, when drift is first seen.
func (r *Reconciler) inspectDrift(ctx context.Context, step plan.Step) result {
	log := logr.FromContextOrDiscard(ctx).WithValues("object", describeObject(step))
	seen := plan.Inspection{Digest: plan.FieldsDigest(step.Current, step.InspectFields), Drifted: step.InspectFields, Managers: unknownManager}
	if granted, err := r.Cluster.DryRunUpdate(ctx, step.Object, step.Current.GetUID(), v1alpha1.ChildManager); err != nil {
		log.V(1).Info("cannot determine which fields drifted", "error", err.Error())
	} else {
		never := plan.DriftedFields(step.Object, granted, v1alpha1.ChildManager)
		seen.Drifted = slices.DeleteFunc(slices.Clone(step.InspectFields), func(p object.Path) bool { return slices.Contains(never, p) })
	}
	if len(seen.Drifted) == 0 {
		return result{inspection: &seen}
	}
	if live, err := r.Cluster.Get(ctx, step.Current.GroupVersionKind(), step.Current.GetNamespace(), step.Current.GetName()); err != nil {
		log.V(1).Info("cannot read which manager changed a field", "error", err.Error())
	} else {
		seen.Managers = othersWithDifferent(live, step.Object)
	}
	return result{inspection: &seen}
}
