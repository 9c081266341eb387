package managed

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/api/protection/v1beta1"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/managed/carry"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/reconcile"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Usages tells which objects are in use, and wakes who has asked when that changes.
type Usages interface {
	Ask(asker object.Key, about []object.Key) (map[object.Key][]usage.Use, *plan.Unreadable)
	Forget(asker object.Key)
}

// block keeps the external resource of a managed resource that was deleted though it is in
// use: no webhook was asked. What was begun goes on.
func (r *Reconciler) block(ctx context.Context, s *reconcileState) reconcile.Result {
	if r.Usages == nil || s.object.GetDeletionTimestamp() == nil {
		return reconcile.Result{}
	}
	own := carry.ResourceOf(s.object, r.Poll)
	if !own.Claimed || !own.Deletes || own.Paused || deletionBegun(s) {
		r.Usages.Forget(s.key)
		return reconcile.Result{}
	}
	uses, blind := r.Usages.Ask(s.key, []object.Key{s.key})
	message := ""
	var holding []usage.Use
	for _, u := range uses[s.key] {
		if u.Holds() && !u.Leaving {
			holding = append(holding, u)
		}
	}
	switch {
	case len(holding) > 0:
		message = usage.Message(holding)
	case blind == nil:
		return reconcile.Result{}
	case blind.Reason == plan.Syncing:
		return reconcile.Done() // it is woken once they are known
	case s.object.GetLabels()[v1beta1.InUseLabel] == "true":
		message = "marked as in use, and by whom can't be told: " + blind.Message
	default:
		return reconcile.Result{}
	}
	return r.report(ctx, s, operation.Step{Do: operation.Rest, Synced: operation.Said{
		Status: metav1.ConditionFalse, Reason: resource.InUse, Message: "the external resource stays while it is " + message,
	}})
}

// deletionBegun says that the external resource has been asked to go, or isn't there to stay.
func deletionBegun(s *reconcileState) bool {
	if s.binding == nil {
		return false
	}
	spec, err := specOf(s.binding)
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
