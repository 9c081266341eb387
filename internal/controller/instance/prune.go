package instance

import (
	"context"
	"fmt"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/plan"
)

// prune deletes what the instance made and nothing wants any more: the last
// layer first, one layer at a time. The plan lists nothing to prune until
// everything that is wanted has been resolved and applied.
func (r *Reconciler) prune(ctx context.Context, v *visit) {
	v.failures = append(v.failures, r.remove(ctx, plan.Teardown(v.plan.Prune))...)
}

// remove deletes the objects of one wave, side by side, and returns what failed.
func (r *Reconciler) remove(ctx context.Context, removal plan.Removal) []error {
	work := make([]func() error, len(removal.Delete))
	for i, child := range removal.Delete {
		work[i] = func() error {
			if err := r.Cluster.Delete(ctx, child); err != nil {
				return fmt.Errorf("delete %s: %w", object.KeyOf(child), err)
			}
			return nil
		}
	}
	return sideBySide(work)
}
