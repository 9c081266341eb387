package instance

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/managedfields"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// It writes the finalizer, the labels and the inventory in one write, before the first child is created.
func (r *Reconciler) recordInventory(ctx context.Context, s *subject, now round) reconcile.Result {
	if problem := r.lostNamespaces(s, now.unread); problem.Reason != "" {
		if out := r.awaitFirstLists(s, now.facts); out.IsFinal() {
			return out
		}
		return r.report(ctx, s, findings{round: now, inventoryProblem: problem})
	}
	settled := now.plan.Settled && len(now.plan.Prune) == 0
	wanted := plan.WantedInventory(s.composer.ChildKinds(), now.desired.Nodes, now.plan.Steps, now.facts.Owned, s.key.Namespace)
	next := inventory.Next(s.owner.Recorded(s.instance), wanted, now.unread, settled)
	metadata := inventory.MetadataOf(s.owner, next, s.composer.Defaults())
	metadata.Fields = now.desired.Fields
	rewrite, out := r.transferInstanceFields(ctx, s)
	if out.IsFinal() {
		return out
	}
	if rewrite || !metadata.IsOn(s.instance) {
		err := r.writeMetadata(ctx, s, metadata)
		if kube.IsStale(err) {
			return reconcile.Conflict()
		}
		if err != nil {
			return r.reportInventoryError(ctx, s, now, fmt.Errorf("write finalizer, labels and inventory: %w", err))
		}
		if last := r.Instances.DeletedDespiteFinalizers(r.Kind, s.key.Namespace, s.key.Name); last != nil && last.GetUID() != s.instance.GetUID() {
			r.Instances.ForgetDeletedDespiteFinalizers(r.Kind, s.key.Namespace, s.key.Name) // what the former incarnation has left is this one's
		}
	}
	s.memory.namespaces = next.Namespaces
	return r.retireFinalizers(ctx, s, now, metadata.Finalizer)
}

func (r *Reconciler) writeMetadata(ctx context.Context, s *subject, metadata inventory.Metadata) error {
	recorded, err := r.write(s, s.instance, func() (*unstructured.Unstructured, error) {
		if r.Definition.Dialect == object.GraphDialect {
			return r.self().Update(ctx, metadata.Configuration(s.instance), s.instance.GetUID(), v1alpha1.InstanceManager)
		}
		return r.self().Patch(ctx, s.instance, metadata.MergePatch(s.instance), v1alpha1.InstanceManager)
	})
	if err == nil {
		s.instance = recorded
	}
	return err
}

// transferInstanceFields transfers the managed fields that a former engine has left on the instance itself. It reports
// whether the metadata is to be applied again, so our manager owns nothing else. An instance that can't be written now
// is reconciled all the same.
func (r *Reconciler) transferInstanceFields(ctx context.Context, s *subject) (rewrite bool, out reconcile.Result) {
	transferred, err := r.transferManagedFields(ctx, s, s.instance, managedfields.IsFormer)
	switch {
	case kube.IsStale(err):
		return false, reconcile.Conflict()
	case err != nil:
		s.fail(fmt.Errorf("transfer the instance's managed fields: %w", err))
	case transferred != s.instance:
		s.instance = transferred
		rewrite = r.Definition.Dialect == object.GraphDialect // other dialects merge what is missing
	}
	return rewrite, reconcile.Result{}
}

// It ends the reconcile. No resource is created for it, the status says so, and the write is retried: no event shows
// when it is possible.
func (r *Reconciler) reportInventoryError(ctx context.Context, s *subject, now round, err error) reconcile.Result {
	if r.awaitFirstLists(s, now.facts).IsFinal() {
		return reconcile.Fail(err) // what the instance consists of is still being read
	}
	problem := problemOf(err)
	problem.Message = "no resource is created while the instance has no finalizer, labels and inventory: " + problem.Message
	if problem.Reason == plan.Forbidden {
		problem.Message += r.grantHint(s.key.Namespace)
	}
	s.fail(err)
	return r.report(ctx, s, findings{round: now, inventoryProblem: problem})
}

// They are of former incarnations of the definition: no other controller removes them.
func (r *Reconciler) retireFinalizers(ctx context.Context, s *subject, now round, current string) reconcile.Result {
	retired := inventory.FormerFinalizers(s.instance, current)
	if len(retired) == 0 {
		return reconcile.Result{}
	}
	kept := slices.DeleteFunc(slices.Clone(s.instance.GetFinalizers()), func(f string) bool { return slices.Contains(retired, f) })
	left, err := r.write(s, s.instance, func() (*unstructured.Unstructured, error) {
		return r.self().SetFinalizers(ctx, s.instance, kept, v1alpha1.InstanceManager)
	})
	if kube.IsStale(err) {
		return reconcile.Conflict()
	}
	if err != nil {
		return r.reportInventoryError(ctx, s, now, fmt.Errorf("retire finalizers %v: %w", retired, err))
	}
	s.instance = left
	return reconcile.Result{}
}
