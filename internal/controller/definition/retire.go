package definition

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/crd"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/watch"
)

// retire lets a deleted definition go: once its instances are gone, or at once
// if it may leave orphans. Until then its kind stays served, so that they can
// be deleted.
func (r *Reconciler) retire(ctx context.Context, v *visit) outcome.Outcome {
	if !slices.Contains(v.raw.GetFinalizers(), v1alpha1.Finalizer) {
		r.halt(v.entry)
		return outcome.Done()
	}
	r.lookAtKind(v)
	if v.kind.ours {
		kind := v.spec.Schema.InstanceKind()
		r.start(v, kind)
		count, counted := r.instances(v, kind)
		if !counted {
			// The watch hasn't caught up; the definition's own lease wakes it.
			return outcome.Done()
		}
		if count > 0 && v.raw.GetAnnotations()[v1alpha1.AllowOrphansAnnotation] != "true" {
			return r.reportRemaining(ctx, v, kind.Kind, count)
		}
		r.halt(v.entry)
		if r.AllowCRDDeletion && count == 0 {
			if err := r.deleteCRD(ctx, kind.GroupKind()); err != nil {
				return outcome.Fail(err)
			}
		}
	}
	r.halt(v.entry)
	kept := slices.DeleteFunc(slices.Clone(v.raw.GetFinalizers()), func(f string) bool { return f == v1alpha1.Finalizer })
	answer, err := r.Cluster.SetFinalizers(ctx, v.raw, kept, v1alpha1.InstanceManager)
	if cluster.IsGone(err) {
		return outcome.Done()
	}
	if err != nil {
		return outcome.Fail(fmt.Errorf("remove the finalizer: %w", err))
	}
	if len(kept) > 0 {
		r.record(v, answer)
	}
	r.Hub.Forget(watch.Subscriber{Key: v.key})
	return outcome.Done()
}

// instances counts the instances of the kind; false while that can't be told.
func (r *Reconciler) instances(v *visit, kind schema.GroupVersionKind) (int, bool) {
	lease := r.Hub.Begin(watch.Subscriber{Key: v.key})
	state := lease.Want(watch.Matching(kind, "", labels.Everything()))
	lease.Commit()
	if state.Phase != watch.Synced {
		return 0, false
	}
	return len(r.Hub.Select(kind, "", labels.Everything())), true
}

func (r *Reconciler) deleteCRD(ctx context.Context, gk schema.GroupKind) error {
	current, ok := r.Kinds.CRD(gk)
	if !ok || current.DeletionTimestamp != nil {
		return nil
	}
	u, err := asConfiguration(current)
	if err != nil {
		return err
	}
	u.SetGroupVersionKind(crd.Kind)
	u.SetUID(current.UID)
	if err := r.Cluster.Delete(ctx, u); err != nil {
		return fmt.Errorf("delete CustomResourceDefinition %s: %w", current.Name, err)
	}
	return nil
}
