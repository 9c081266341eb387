package instance

import (
	"context"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/plan"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// move asks for objects to go, or takes the instance's marks off those that stay,
// side by side, and notes what came of it. It reports whether any was refused. An
// object is asked to go once: until the cache shows that it does, the end of a
// sibling would otherwise ask again.
func (r *Reconciler) move(ctx context.Context, v *visit, m plan.Move) (refused bool) {
	var (
		work    []func() error
		asked   []*unstructured.Unstructured
		answers = make([]*answer, len(m.Delete)+len(m.Release))
	)
	ask := func(o *unstructured.Unstructured, verb string, do func() error) {
		i := len(asked)
		asked = append(asked, o)
		work = append(work, func() error {
			answers[i] = &answer{}
			if err := do(); err != nil {
				answers[i].refusal.Reason, answers[i].refusal.Message = r.Cluster.WhyNot(ctx, o, verb, err)
				answers[i].refused = true
				logr.FromContextOrDiscard(ctx).Info("an object doesn't go", "object", object.KeyOf(o), "verb", verb,
					"reason", answers[i].refusal.Reason, "message", answers[i].refusal.Message)
			}
			return nil
		})
	}
	for _, o := range m.Delete {
		ask(o, "delete", func() error { return r.Cluster.Delete(ctx, o) })
	}
	for _, o := range m.Release {
		labels, annotations := inventory.Marks(o)
		ask(o, "patch", func() error { return r.Cluster.Release(ctx, o, labels, annotations, v1alpha1.ChildManager) })
	}
	v.failures = append(v.failures, sideBySide(work)...)
	now := r.Now()
	var released []*unstructured.Unstructured
	for i, o := range asked {
		switch got := answers[i]; {
		case got == nil: // a mistake in the program, which is told as a failure
		case got.refused:
			refused = true
			v.memory.refuse(o, got.refusal, now)
		default:
			v.memory.grant(o)
			if i >= len(m.Delete) {
				released = append(released, o)
			}
		}
	}
	if len(released) > 0 {
		r.Events.Event(v.instance, telemetry.Normal, "Orphaned", "left in place, without the labels of this instance: "+listed(released))
	}
	return refused
}

// answer is what came of asking for one object.
type answer struct {
	refused bool
	refusal plan.Refusal
}
