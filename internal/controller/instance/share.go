package instance

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/plan"
)

// writeOnto makes a step's write onto the incarnation that is there, without the fields that
// are left to others, and, if the node doesn't take any over, only if nobody else has set
// one.
func (r *Reconciler) writeOnto(ctx context.Context, v *visit, step plan.Step, current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	wanted := sent(step)
	return r.write(v, step.Object, func() (*unstructured.Unstructured, error) {
		if step.Refuses {
			return r.Cluster.Share(ctx, wanted, current.GetUID(), v1alpha1.ChildManager)
		}
		return r.Cluster.Update(ctx, wanted, current.GetUID(), v1alpha1.ChildManager)
	})
}

// sent is what of a step's object is applied.
func sent(step plan.Step) *unstructured.Unstructured {
	if len(step.Omit) == 0 {
		return step.Object
	}
	return &unstructured.Unstructured{Object: object.Without(step.Object.Object, step.Omit)}
}

// refused is the answer that somebody else has set fields which the node wants otherwise.
// One read tells who: the server names him in a text for people only.
func (r *Reconciler) refused(ctx context.Context, step plan.Step, current *unstructured.Unstructured, fields []string) result {
	live, err := r.Cluster.Get(ctx, step.Object.GroupVersionKind(), step.Object.GetNamespace(), step.Object.GetName())
	by := somebody
	if err != nil {
		logr.FromContextOrDiscard(ctx).V(1).Info("can't tell who has set a field", "object", nameOf(step), "error", err.Error())
	} else {
		by = differing(live, step.Object)
	}
	return result{conflict: &plan.Refused{
		Wanted: inventory.Applied(step.Object), Seen: plan.Appearance(current), Problem: plan.Conflict(step.Object, fields, by),
	}, holder: current}
}

// hold notes that a node has to wait for somebody else to give up a field: until then, or
// until something else is wanted, it isn't tried again. An object that isn't the
// instance's yet is watched by its name.
func (v *visit) hold(step plan.Step, by *unstructured.Unstructured, refused plan.Refused) {
	v.facts.Problems[step.Node] = refused.Problem
	if !v.owner.Owns(by) {
		v.block(step.Node, by, refused.Problem)
		b := v.memory.blocked[step.Node]
		b.refused = &refused
		v.memory.blocked[step.Node] = b
		return
	}
	if v.memory.history.Refusals == nil {
		v.memory.history.Refusals = plan.Refusals{}
	}
	v.memory.history.Refusals[by.GetUID()] = refused
}

// settled notes what a write that was granted tells of an object: what the server doesn't
// let us own, that nobody has refused it, and that nothing of it has been changed.
func (m *memory) settled(step plan.Step, answer *unstructured.Unstructured) {
	child := answer.GetUID()
	lost := plan.Lost(step.Object, answer, v1alpha1.ChildManager)
	m.tolerate(child, step.Ours(lost))
	delete(m.history.Refusals, child)
	if left := step.Left(lost); step.Drift.Policy == v1alpha1.DriftWarn && len(left) > 0 && len(step.Omit) == 0 {
		m.sight(child, plan.Sighting{Of: plan.Glance(answer, left)})
	} else {
		delete(m.history.Sightings, child)
	}
}

// look finds out which of the fields that a step only tells of were changed, and by whom:
// what the server doesn't let us own was nobody's to change. It costs two requests, when
// drift is first seen.
func (r *Reconciler) look(ctx context.Context, step plan.Step) result {
	log := logr.FromContextOrDiscard(ctx).WithValues("object", nameOf(step))
	seen := plan.Sighting{Of: plan.Glance(step.Current, step.Look), Drifted: step.Look, By: somebody}
	if granted, err := r.Cluster.Try(ctx, step.Object, step.Current.GetUID(), v1alpha1.ChildManager); err != nil {
		log.V(1).Info("can't tell which fields were changed", "error", err.Error())
	} else {
		never := plan.Lost(step.Object, granted, v1alpha1.ChildManager)
		seen.Drifted = slices.DeleteFunc(slices.Clone(step.Look), func(p object.Path) bool { return slices.Contains(never, p) })
	}
	if len(seen.Drifted) == 0 {
		return result{sighting: &seen}
	}
	if live, err := r.Cluster.Get(ctx, step.Current.GroupVersionKind(), step.Current.GetNamespace(), step.Current.GetName()); err != nil {
		log.V(1).Info("can't tell who changed a field", "error", err.Error())
	} else {
		seen.By = differing(live, step.Object)
	}
	return result{sighting: &seen}
}

const somebody = "somebody"

// differing names the managers other than ours that have a field of an object which we
// want to be otherwise.
func differing(live, wanted *unstructured.Unstructured) string {
	var names []string
	for _, entry := range live.GetManagedFields() {
		if entry.Manager == v1alpha1.ChildManager || entry.FieldsV1 == nil || entry.Subresource == "status" || slices.Contains(names, entry.Manager) {
			continue
		}
		var fields map[string]any
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) == nil && differs(wanted.Object, live.Object, fields) {
			names = append(names, entry.Manager)
		}
	}
	if len(names) == 0 {
		return takersOf(live, wanted)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// differs says whether a set of fields has one that is wanted and is otherwise.
func differs(wanted, is any, fields map[string]any) bool {
	m, isMap := wanted.(map[string]any)
	has, _ := is.(map[string]any)
	if len(fields) == 0 || !isMap || has == nil {
		return !reflect.DeepEqual(wanted, is)
	}
	for key, value := range m {
		if below, owned := fields["f:"+key].(map[string]any); owned && differs(value, has[key], below) {
			return true
		}
	}
	return false
}
