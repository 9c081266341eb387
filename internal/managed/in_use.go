package managed

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/api/protection/v1beta1"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/managed/execute"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Usages knows which objects are in use; *protection.Index implements it.
type Usages interface {
	// Subscribe returns the usages of objects, and why they cannot be read, if so. It enqueues
	// the subscriber when that changes, until Forget. A call replaces the subscriber's earlier
	// ones.
	Subscribe(subscriber object.Key, objects []object.Key) (map[object.Key][]usage.Usage, *plan.Unreadable)
	Forget(subscriber object.Key)
}

// blockIfInUse ends the reconcile of a managed resource that is being deleted while it is in use, so its external
// resource is not deleted. The webhook denies such a deletion, but the API server might not have called it. A deletion
// of the external resource that has started goes on.
func (r *Reconciler) blockIfInUse(ctx context.Context, s *reconcileState) reconcile.Result {
	if r.Usages == nil || s.object.GetDeletionTimestamp() == nil {
		return reconcile.Result{}
	}
	own := execute.ReadResource(s.object, r.PollInterval)
	if !own.HasFinalizer || !own.DeletesExternal || own.Paused || hasDeletionStarted(s.binding) {
		r.Usages.Forget(s.key)
		return reconcile.Result{}
	}
	usages, unreadable := r.Usages.Subscribe(s.key, []object.Key{s.key})
	var blocking []usage.Usage
	for _, u := range usages[s.key] {
		if u.Blocks() && !u.Released {
			blocking = append(blocking, u)
		}
	}
	switch {
	case len(blocking) > 0:
		return r.reportInUse(ctx, s, usage.Message(blocking))
	case unreadable == nil:
		return reconcile.Result{}
	case unreadable.Reason == plan.Syncing:
		return reconcile.Done() // the index enqueues the object once usages are read
	case s.object.GetLabels()[v1beta1.InUseLabel] == "true":
		return r.reportInUse(ctx, s, "labelled as in use, and its usages cannot be read: "+unreadable.Message)
	}
	return reconcile.Result{}
}

func (r *Reconciler) reportInUse(ctx context.Context, s *reconcileState, message string) reconcile.Result {
	return r.report(ctx, s, operation.Step{Do: operation.Finish, Synced: operation.Condition{
		Status: metav1.ConditionFalse, Reason: resource.InUse, Message: "the external resource is not deleted while the object is " + message,
	}})
}

// An external resource that is gone or released counts.
func hasDeletionStarted(b *unstructured.Unstructured) bool {
	if b == nil {
		return false
	}
	spec, err := readSpec(b)
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
