package instance

import (
	"context"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/managedfields"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/ownership"
	"github.com/espalier-dev/espalier/internal/object"
)

// Fields that are left to other managers are not applied. If the node takes no fields over, it succeeds only if no
// other manager has set one.
func (r *Reconciler) applyOnto(ctx context.Context, s *reconcileState, step plan.Step, current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
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
	switch {
	case step.SecretFields:
		fields = nil
	case step.Sensitive:
		for i := range fields {
			fields[i] = kube.RedactedField(fields[i])
		}
	}
	return result{conflict: &plan.RefusedApply{
		DesiredDigest: inventory.AppliedDigest(step.Object), LiveDigest: plan.ContentDigest(current), Problem: plan.FieldConflictProblem(step.Object, fields, by),
	}, holder: current}
}

// setConflictObstacle records that a node waits for another manager to release a field. It is
// applied again when the object changes or the desired object does. An object that isn't the
// instance's yet is watched by its name.
func (s *reconcileState) setConflictObstacle(step plan.Step, by *unstructured.Unstructured, refused plan.RefusedApply) {
	s.facts.Problems[step.Node] = refused.Problem
	if !s.owner.Owns(by) {
		s.setObstacle(step.Node, by, refused.Problem)
		b := s.memory.obstacles[step.Node]
		b.Refused = &refused
		s.memory.obstacles[step.Node] = b
		return
	}
	if s.memory.history.Refusals == nil {
		s.memory.history.Refusals = plan.Refusals{}
	}
	s.memory.history.Refusals[by.GetUID()] = refused
}
