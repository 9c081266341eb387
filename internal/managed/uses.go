package managed

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/api/protection/v1beta1"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/managed/execute"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/reconcile"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Usages knows which objects are in use. Subscribe enqueues the subscriber when the answer
// changes, until it tracks other objects or is forgotten.
type Usages interface {
	Subscribe(asker object.Key, about []object.Key) (map[object.Key][]usage.Usage, *plan.Unreadable)
	Forget(asker object.Key)
}

// blockIfInUse keeps the external resource of a managed resource that is in use and was
// deleted without the webhook being called. A deletion that has started goes on.
func (r *Reconciler) blockIfInUse(ctx context.Context, s *reconcileState) reconcile.Result {
	if r.Usages == nil || s.object.GetDeletionTimestamp() == nil {
		return reconcile.Result{}
	}
	own := execute.ReadResource(s.object, r.PollInterval)
	if !own.HasFinalizer || !own.DeletesExternal || own.Paused || deletionBegun(s) {
		r.Usages.Forget(s.key)
		return reconcile.Result{}
	}
	uses, unreadable := r.Usages.Subscribe(s.key, []object.Key{s.key})
	message := ""
	var blocking []usage.Usage
	for _, u := range uses[s.key] {
		if u.Blocks() && !u.Released {
			blocking = append(blocking, u)
		}
	}
	switch {
	case len(blocking) > 0:
		message = usage.Message(blocking)
	case unreadable == nil:
		return reconcile.Result{}
	case unreadable.Reason == plan.Syncing:
		return reconcile.Done() // it is enqueued once they are known
	case s.object.GetLabels()[v1beta1.InUseLabel] == "true":
		message = "labelled as in use, and its usages cannot be read: " + unreadable.Message
	default:
		return reconcile.Result{}
	}
	return r.report(ctx, s, operation.Step{Do: operation.Finish, Synced: operation.Condition{
		Status: metav1.ConditionFalse, Reason: resource.InUse, Message: "the external resource is not deleted while the object is " + message,
	}})
}

// deletionBegun reports whether the deletion of the external resource has started, or the
// external resource is gone or released.
func deletionBegun(s *reconcileState) bool {
	if s.binding == nil {
		return false
	}
	spec, err := readSpec(s.binding)
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
