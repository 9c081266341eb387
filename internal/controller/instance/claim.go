package instance

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/plan"
)

// claim makes the instance carry its finalizer, labels and inventory before
// anything is made for it, in one write.
func (r *Reconciler) claim(ctx context.Context, v *visit) outcome.Outcome {
	settled := v.plan.Settled && len(v.plan.Prune) == 0
	next := inventory.Next(inventory.Read(v.instance), wantedInventory(v), v.unread, settled)
	claim := inventory.ClaimOf(v.owner, next, v.composer.Defaults())
	claim.Fields = v.desired.Fields
	taken, out := r.takeOver(ctx, v)
	if out.Settled() {
		return out
	}
	if taken || !claim.In(v.instance) {
		claimed, err := r.write(v, v.instance, func() (*unstructured.Unstructured, error) {
			if r.Definition.Dialect == inventory.GraphDialect {
				return r.Cluster.Update(ctx, claim.Configuration(v.instance), v.instance.GetUID(), v1alpha1.InstanceManager)
			}
			return r.Cluster.Patch(ctx, v.instance, claim.Change(v.instance), v1alpha1.InstanceManager)
		})
		if cluster.IsGone(err) {
			return outcome.Done()
		}
		if err != nil {
			return r.unclaimed(ctx, v, fmt.Errorf("claim the instance: %w", err))
		}
		v.see(claimed)
		if last := r.Hub.Bypassed(r.Kind, v.key.Namespace, v.key.Name); last != nil && last.GetUID() != claimed.GetUID() {
			r.Hub.ForgetBypassed(r.Kind, v.key.Namespace, v.key.Name) // what a former one has left is this one's
		}
	}
	return r.retireFinalizers(ctx, v, claim.Finalizer)
}

// takeOver folds the managed fields that a former engine has left on the instance itself.
// It reports whether the instance is to be claimed anew, so that our applier owns no more
// than the claim. An instance that can't be written now is looked after all the same.
func (r *Reconciler) takeOver(ctx context.Context, v *visit) (anew bool, out outcome.Outcome) {
	folded, err := r.foldManagers(ctx, v, v.instance)
	switch {
	case cluster.IsGone(err):
		return false, outcome.Done()
	case err != nil:
		v.failures = append(v.failures, fmt.Errorf("take over the instance's managed fields: %w", err))
	case folded != v.instance:
		v.see(folded)
		anew = r.Definition.Dialect == inventory.GraphDialect // others merge what is missing
	}
	return anew, outcome.Outcome{}
}

// unclaimed ends a pass over an instance that can't be claimed. Nothing is made for it until
// it can, so it says so, and tries again: no event tells when it can.
func (r *Reconciler) unclaimed(ctx context.Context, v *visit, err error) outcome.Outcome {
	if v.patience(r.Now()).Settled() {
		return outcome.Fail(err) // what the instance consists of is still being read
	}
	problem := cluster.Explain(err)
	problem.Message = "nothing is done for the instance while it can't be given its finalizer, labels and inventory: " + problem.Message
	v.claiming = problem
	v.failures = append(v.failures, err)
	return r.report(ctx, v)
}

// see goes on with a newer revision of the instance.
func (v *visit) see(instance *unstructured.Unstructured) {
	v.instance = instance
	v.facts.Instance = instance
}

// wantedInventory is where the instance's children are and will be, as far as that is
// known: kinds of nodes that are left out aren't among it before they are there.
func wantedInventory(v *visit) inventory.Inventory {
	var kinds []schema.GroupKind
	without := leftOut(v.desired.Nodes)
	for _, gvk := range v.composer.Written() {
		if !without[gvk.GroupKind()] {
			kinds = append(kinds, gvk.GroupKind())
		}
	}
	inv := inventory.Of(kinds)
	add := func(o *unstructured.Unstructured) {
		inv.Kinds[o.GroupVersionKind().GroupKind()] = struct{}{}
		if ns := o.GetNamespace(); ns != "" && ns != v.key.Namespace {
			inv.Namespaces[ns] = struct{}{}
		}
	}
	for _, step := range v.plan.Steps {
		if step.Object != nil {
			add(step.Object)
		}
	}
	for _, children := range v.facts.Owned {
		for _, child := range children {
			add(child)
		}
	}
	return inv
}

// leftOut are the kinds of which all nodes are left out.
func leftOut(nodes []plan.Node) map[schema.GroupKind]bool {
	out := map[schema.GroupKind]bool{}
	for _, n := range nodes {
		if n.External || n.Variable {
			continue
		}
		others, known := out[n.Kind.GroupKind()]
		out[n.Kind.GroupKind()] = n.Skipped != "" && (others || !known)
	}
	return out
}

// retireFinalizers removes the finalizers of former incarnations of the
// definition: nobody else will.
func (r *Reconciler) retireFinalizers(ctx context.Context, v *visit, current string) outcome.Outcome {
	retired := inventory.Retired(v.instance, current)
	if len(retired) == 0 {
		return outcome.Outcome{}
	}
	kept := slices.DeleteFunc(slices.Clone(v.instance.GetFinalizers()), func(f string) bool { return slices.Contains(retired, f) })
	left, err := r.write(v, v.instance, func() (*unstructured.Unstructured, error) {
		return r.Cluster.SetFinalizers(ctx, v.instance, kept, v1alpha1.InstanceManager)
	})
	if cluster.IsGone(err) {
		return outcome.Done()
	}
	if err != nil {
		return r.unclaimed(ctx, v, fmt.Errorf("retire finalizers %v: %w", retired, err))
	}
	v.see(left)
	return outcome.Outcome{}
}
