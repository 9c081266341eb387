package instance

import (
	"context"

	"github.com/go-logr/logr"

	"github.com/espalier-dev/espalier/internal/instance/plan"
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
