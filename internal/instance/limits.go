package instance

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// Limits bound each instance, and count the reconciles that exceed them. The zero value has the
// default limits and counts nothing.
type Limits struct {
	plan.Limits
	Exceeded *telemetry.ExceededLimits
}

// The composer changes nothing if the instance is nested too deeply. So a definition that creates instances of its own
// kind, even indirectly, ends.
func (r *Reconciler) withinDepth(c Composer, o *unstructured.Unstructured) Composer {
	limit := r.Limits.WithDefaults().Depth
	if r.depth(o, limit+1) <= limit {
		return c
	}
	r.Limits.Exceeded.Count(r.Kind.GroupKind(), string(plan.DepthLimit))
	return Frozen{Composer: c, Problem: plan.Problem{
		Reason: plan.LimitExceeded,
		Message: fmt.Sprintf("more than %d instances are nested in each other (%s): %s is created by %s; the instance is not changed",
			limit, plan.DepthLimit.Field(), o.GetName(), inventory.DescribeOwner(o)),
	}}
}

// depth counts an instance and its ancestors, up to a limit. It reads caches only. An instance is nested in the one
// that has signed it, whatever labels other clients have written to it.
func (r *Reconciler) depth(o *unstructured.Unstructured, limit int) int {
	for depth := 1; ; depth++ {
		key, version, nested := inventory.InstanceOf(o)
		if !nested || depth == limit || !r.Keys.Verifies(o.GetAnnotations()[v1alpha1.SignatureAnnotation], key, object.KeyOf(o), inventory.Node(o)) {
			return depth
		}
		parent, cached := r.Instances.GetCached(key.GroupKind().WithVersion(version), key.Namespace, key.Name)
		if !cached {
			return depth
		}
		o = parent
	}
}

func (r *Reconciler) countExceeded(desired plan.Desired) {
	for _, limit := range desired.Exceeded {
		r.Limits.Exceeded.Count(r.Kind.GroupKind(), string(limit))
	}
}
