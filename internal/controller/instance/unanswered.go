package instance

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/watch"
)

// unanswered reads what an instance has left from the API server itself, before it is let
// go, if it isn't known what has become of one of its writes: an object may have been made
// whose event is still on its way, and that no owner reference would take along. It settles
// the pass if there is such an object.
func (r *Reconciler) unanswered(ctx context.Context, v *visit) outcome.Outcome {
	if !v.memory.unanswered {
		return outcome.Outcome{}
	}
	found := false
	for _, gk := range inventory.Read(v.instance).GroupKinds() {
		gvk, standing, err := r.Kinds.Standing(ctx, gk)
		if err == nil && standing == cluster.Gone {
			continue
		}
		var children []unstructured.Unstructured
		if err == nil {
			children, err = r.Cluster.List(ctx, gvk, v1alpha1.ApplySetPartOfLabel+"="+v.owner.ID())
		}
		if err != nil {
			return outcome.Fail(fmt.Errorf("look for objects whose creation was not answered: %w", err))
		}
		for i := range children {
			if inventory.Node(&children[i]) != "" {
				r.World.Record(&children[i], watch.Subscriber{Key: v.key})
				found = true
			}
		}
	}
	if found {
		return outcome.Wait(soon)
	}
	v.memory.unanswered = false
	return outcome.Outcome{}
}

// soon is when a pass is repeated that has found what caches didn't have.
const soon = 100 * time.Millisecond
