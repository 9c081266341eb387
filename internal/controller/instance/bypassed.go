package instance

import (
	"context"
	"errors"
	"slices"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/plan"
	"github.com/espalier-dev/espalier/internal/report"
	"github.com/espalier-dev/espalier/internal/watch"
)

// bypassed is the last state of an instance that the API server has deleted although it had
// its finalizer, as if it were being deleted now; nil for one that went otherwise.
func (r *Reconciler) bypassed(key object.Key) *unstructured.Unstructured {
	last := r.Hub.Bypassed(r.Kind, key.Namespace, key.Name)
	if last == nil || !slices.ContainsFunc(last.GetFinalizers(), inventory.IsFinalizer) {
		return nil
	}
	gone := last.DeepCopy()
	now := metav1.NewTime(r.Now())
	gone.SetDeletionTimestamp(&now)
	gone.SetFinalizers(slices.DeleteFunc(gone.GetFinalizers(), func(f string) bool { return !inventory.IsFinalizer(f) }))
	return gone
}

// clear removes the children of an instance that the API server has deleted although it had
// its finalizer: one that was deleted while it was being claimed. There is no status to tell of
// it. The garbage collector takes none of them, since they have another owner as well.
func (r *Reconciler) clear(ctx context.Context, key object.Key, gone *unstructured.Unstructured) outcome.Outcome {
	v := &visit{key: key, instance: gone, owner: inventory.OwnerOf(gone, r.Definition, r.Version), memory: r.memories.of(key, gone.GetUID())}
	v.memory.policy = report.Background
	remains, err := r.observeRemains(ctx, v)
	if err != nil {
		return outcome.Fail(err)
	}
	removal := plan.Teardown(remains)
	if removal.Done {
		if out := r.unanswered(ctx, v); out.Settled() {
			return out
		}
		r.Hub.ForgetBypassed(r.Kind, key.Namespace, key.Name)
		return r.forget(key)
	}
	logr.FromContextOrDiscard(ctx).V(1).Info("the instance was deleted past its finalizer; what is left of it is removed", "children", len(remains.Children))
	r.move(ctx, v, removal.Move)
	if err := errors.Join(append(v.failures, v.lookup)...); err != nil {
		return outcome.Fail(err)
	}
	return later(removal.Retry)
}

// forget forgets an instance that is gone.
func (r *Reconciler) forget(key object.Key) outcome.Outcome {
	r.memories.forget(key)
	r.Standings.forget(key)
	r.forgetUses(key, nil)
	r.World.Forget(watch.Subscriber{Key: key})
	r.Wake()
	return outcome.Done()
}
