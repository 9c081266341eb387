package instance

import (
	"context"
	"errors"
	"slices"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// deletedDespiteFinalizers is the last state of an instance that the API server has deleted
// although it had its finalizer, made to look as if it were being deleted now; nil if it was
// deleted properly.
func (r *Reconciler) deletedDespiteFinalizers(key object.Key) *unstructured.Unstructured {
	last := r.Instances.DeletedDespiteFinalizers(r.Kind, key.Namespace, key.Name)
	if last == nil || !slices.ContainsFunc(last.GetFinalizers(), inventory.IsFinalizer) {
		return nil
	}
	gone := last.DeepCopy()
	now := metav1.NewTime(r.Now())
	gone.SetDeletionTimestamp(&now)
	gone.SetFinalizers(slices.DeleteFunc(gone.GetFinalizers(), func(f string) bool { return !inventory.IsFinalizer(f) }))
	return gone
}

// tearDownDeletedDespiteFinalizers removes the children of an instance that the API server has deleted although it had
// its finalizer: it was deleted while the finalizer was being added. There is no status to report to. The garbage
// collector takes none of the children, because they have another owner as well.
func (r *Reconciler) tearDownDeletedDespiteFinalizers(ctx context.Context, key object.Key, gone *unstructured.Unstructured) reconcile.Result {
	s := &subject{key: key, instance: gone, owner: r.ownerOf(gone), memory: r.memories.of(key, gone.GetUID())}
	s.memory.policy = report.Background
	remains, err := r.observeRemains(ctx, s)
	if err != nil {
		return reconcile.Fail(err)
	}
	removal := plan.Teardown(remains.Remaining)
	if removal.Done {
		if out := r.findUnansweredWrites(ctx, s); out.IsFinal() {
			return out
		}
		if r.releaseAll(ctx, s) {
			return reconcile.Fail(errors.Join(s.errs...))
		}
		r.Instances.ForgetDeletedDespiteFinalizers(r.Kind, key.Namespace, key.Name)
		return r.forget(key)
	}
	logr.FromContextOrDiscard(ctx).V(1).Info("the instance was deleted despite its finalizer; removing its children", "children", len(remains.Children))
	r.executeRemoval(ctx, s, removal.RemovalStep, r.deleteChild)
	if err := errors.Join(append(s.errs, remains.lookupErr)...); err != nil {
		return reconcile.Fail(err)
	}
	return requeue(removal.Retry)
}
