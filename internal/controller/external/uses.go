package external

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/api/protection/v1beta1"
	"github.com/espalier-dev/espalier/internal/controller/external/carry"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/operation"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/plan"
	"github.com/espalier-dev/espalier/internal/usage"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Usages tells which objects are in use, and wakes who has asked when that changes.
type Usages interface {
	Ask(asker object.Key, about []object.Key) (map[object.Key][]usage.Use, *plan.Blind)
	Forget(asker object.Key)
}

// keep keeps the external resource of a managed resource that was deleted though it is in
// use: no webhook was asked. What was begun goes on.
func (r *Reconciler) keep(ctx context.Context, v *visit) outcome.Outcome {
	if r.Usages == nil || v.object.GetDeletionTimestamp() == nil {
		return outcome.Outcome{}
	}
	own := carry.ResourceOf(v.object, r.Poll)
	if !own.Claimed || !own.Deletes || own.Paused || begun(v) {
		r.Usages.Forget(v.key)
		return outcome.Outcome{}
	}
	uses, blind := r.Usages.Ask(v.key, []object.Key{v.key})
	message := ""
	var holding []usage.Use
	for _, u := range uses[v.key] {
		if u.Holds() && !u.Leaving {
			holding = append(holding, u)
		}
	}
	switch {
	case len(holding) > 0:
		message = usage.Message(holding)
	case blind == nil:
		return outcome.Outcome{}
	case blind.Reason == plan.Syncing:
		return outcome.Done() // it is woken once they are known
	case v.object.GetLabels()[v1beta1.InUseLabel] == "true":
		message = "marked as in use, and by whom can't be told: " + blind.Message
	default:
		return outcome.Outcome{}
	}
	return r.report(ctx, v, operation.Step{Do: operation.Rest, Synced: operation.Said{
		Status: metav1.ConditionFalse, Reason: resource.InUse, Message: "the external resource stays while it is " + message,
	}})
}

// begun says that the external resource has been asked to go, or isn't there to stay.
func begun(v *visit) bool {
	if v.binding == nil {
		return false
	}
	spec, err := specOf(v.binding)
	if err != nil {
		return false
	}
	switch spec.Phase {
	case binding.BindingDeleting, binding.BindingTombstone, binding.BindingReleased:
		return true
	default:
	}
	return spec.Operation != nil && external.Verb(spec.Operation.Verb) == external.Delete
}
