package instance

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/plan"
)

// prune deletes what the instance made and nothing wants any more: the last
// layer first, one layer at a time. The plan lists nothing to prune until
// everything that is wanted has been resolved and applied.
func (r *Reconciler) prune(ctx context.Context, v *visit) {
	if len(v.plan.Prune) == 0 {
		v.memory.asked = nil // what was asked to go is gone
		return
	}
	v.failures = append(v.failures, r.remove(ctx, v, plan.Teardown(v.plan.Prune))...)
}

// remove deletes the objects of one wave, side by side, and returns what failed.
// An object is asked to go once: until the cache shows that it does, the end of a
// sibling would otherwise ask again.
func (r *Reconciler) remove(ctx context.Context, v *visit, removal plan.Removal) []error {
	var (
		work  []func() error
		asked []*unstructured.Unstructured
	)
	for _, child := range removal.Delete {
		if v.memory.asked[child.GetUID()] {
			continue
		}
		asked = append(asked, child)
		work = append(work, func() error {
			if err := r.Cluster.Delete(ctx, child); err != nil {
				return fmt.Errorf("delete %s: %w", object.KeyOf(child), err)
			}
			return nil
		})
	}
	failed := sideBySide(work)
	if len(failed) == 0 { // otherwise all are asked again, which does no harm
		v.memory.ask(asked)
	}
	return failed
}
