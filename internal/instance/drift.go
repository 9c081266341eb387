package instance

import (
	"context"
	"slices"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/managedfields"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/ownership"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// The requests about drift, contests and conflicts. What to do about them is decided in plan/drift.go.

// correctDrift takes back fields that another manager has taken over, and names that manager in
// an event. The caches keep our own managed fields only, so the name costs a request; drift is
// rare. Where the server doesn't let us own a field, because the schema doesn't know it, the
// write changes nothing and there is no event.
//
// While a field is contested, the status says so, and single corrections are no events.
func (r *Reconciler) correctDrift(ctx context.Context, s *subject, step plan.Step) result {
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

// Fields that are left to other managers are not applied. If the node takes no fields over, it succeeds only if no
// other manager has set one.
func (r *Reconciler) applyOnto(ctx context.Context, s *subject, step plan.Step, current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	wanted := withoutOmitted(step)
	return r.write(s, step.Object, func() (*unstructured.Unstructured, error) {
		if step.RefuseConflicts {
			return r.Cluster.UpdateWithoutForce(ctx, wanted, current.GetUID(), v1alpha1.ChildManager)
		}
		return r.Cluster.Update(ctx, wanted, current.GetUID(), v1alpha1.ChildManager)
	})
}

// stringDataConflicts lists the data of a Secret that another manager has set to another value by applying
// stringData, if the node takes no fields over: the API server finds no conflict between stringData and
// data. It costs a request if a value differs.
func (r *Reconciler) stringDataConflicts(ctx context.Context, step plan.Step, current *unstructured.Unstructured) ([]string, error) {
	if !step.RefuseConflicts {
		return nil, nil
	}
	wanted := withoutOmitted(step)
	changed := plan.ChangedData(wanted, current)
	if len(changed) == 0 {
		return nil, nil
	}
	live, err := r.Cluster.Get(ctx, wanted.GroupVersionKind(), wanted.GetNamespace(), wanted.GetName())
	if kube.IsObjectNotFound(err, wanted.GetName()) {
		return nil, nil // the apply finds so, too
	}
	if err != nil {
		return nil, err
	}
	var fields []string
	for _, field := range changed {
		by := ownership.Managers(live, func(e ownership.Entry) bool {
			return e.Manager != v1alpha1.ChildManager && e.HasField("stringData") &&
				ownership.OwnsAny(wanted.Object, []object.Path{field}, managedfields.Stored(live, e.Fields()))
		})
		if len(by) > 0 {
			fields = append(fields, string(field))
		}
	}
	return fields, nil
}

func withoutOmitted(step plan.Step) *unstructured.Unstructured {
	if len(step.OmitFields) == 0 {
		return step.Object
	}
	return &unstructured.Unstructured{Object: object.WithoutFields(step.Object.Object, step.OmitFields)}
}

// It costs one read to name the manager: the server does so in a text only.
func (r *Reconciler) fieldConflict(ctx context.Context, step plan.Step, current *unstructured.Unstructured, fields []string) result {
	live, err := r.Cluster.Get(ctx, step.Object.GroupVersionKind(), step.Object.GetNamespace(), step.Object.GetName())
	by := unknownManager
	if err != nil {
		logr.FromContextOrDiscard(ctx).V(1).Info("cannot read which manager has set a field", "object", describeObject(step), "error", err.Error())
	} else {
		by = othersWithDifferent(live, step.Object)
	}
	return result{conflict: &plan.RefusedApply{
		DesiredDigest: inventory.AppliedDigest(step.Object), LiveDigest: plan.ContentDigest(current),
		Problem: plan.FieldConflictProblem(step.Object, shownFields(step, fields), by),
	}, holder: current}
}

// shownFields are fields of a step's object without what may come from a Secret.
func shownFields(step plan.Step, fields []string) []string {
	switch {
	case step.SecretFields:
		return nil
	case step.Sensitive:
		for i := range fields {
			fields[i] = kube.RedactedField(fields[i])
		}
	}
	return fields
}

// setConflictObstacle records that a node waits for another manager to release a field. It is
// applied again when the object changes or the desired object does. An object that isn't the
// instance's yet is watched by its name.
func (s *subject) setConflictObstacle(step plan.Step, by *unstructured.Unstructured, refused plan.RefusedApply) {
	if !s.owner.Owns(by) {
		s.memory.setObstacle(step.Node, by, refused.Problem, &refused)
		return
	}
	if s.memory.history.Refusals == nil {
		s.memory.history.Refusals = plan.Refusals{}
	}
	s.memory.history.Refusals[by.GetUID()] = refused
}
