package instance

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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
	var (
		wait   sync.WaitGroup
		errs   = make([]error, len(removal.Delete))
		slots  = make(chan struct{}, sideBySide)
		failed []error
	)
	for i, child := range removal.Delete {
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			errs[i] = r.delete(ctx, child)
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}

func (r *Reconciler) delete(ctx context.Context, child *unstructured.Unstructured) error {
	if err := r.Cluster.Delete(ctx, child); err != nil {
		return fmt.Errorf("delete %s: %w", object.KeyOf(child), err)
	}
	return nil
}
