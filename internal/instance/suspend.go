package instance

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// Suspended says that an annotation suspends the instance. It can be deleted all the same: to
// stop changes is not to ask for it to stay.
func (Graphs) Suspended(instance *unstructured.Unstructured) string {
	if instance.GetDeletionTimestamp() != nil || !suspended(instance) {
		return ""
	}
	return fmt.Sprintf("nothing is changed while the annotation %s is %q; remove it to continue",
		v1alpha1.ReconcileAnnotation, instance.GetAnnotations()[v1alpha1.ReconcileAnnotation])
}

// Other values have no effect.
func suspended(instance *unstructured.Unstructured) bool {
	value := instance.GetAnnotations()[v1alpha1.ReconcileAnnotation]
	return strings.EqualFold(value, v1alpha1.ReconcileSuspended) || strings.EqualFold(value, v1alpha1.ReconcileDisabled)
}

// SuspendedConditions says that it isn't known any more whether the resources are as desired.
// Nothing is in progress. All other conditions stay. If the conditions are the author's, it changes only those that
// exist.
func (Graphs) SuspendedConditions(set condition.Set, why string, at Moment) condition.Set {
	_, own := set.Get(v1alpha1.InstanceManaged)
	authors := len(set) > 0 && !own
	for _, kind := range []string{v1alpha1.InstanceResourcesReady, v1alpha1.InstanceReady} {
		if _, there := set.Get(kind); authors && !there {
			continue
		}
		set = at.Mark(set, v1alpha1.Condition{Type: kind, Status: condition.False, Reason: Suspended, Message: why})
	}
	if authors {
		return set
	}
	return at.MarkProgress(set, condition.Progress{})
}

// Suspended is the reason of conditions while an instance is suspended.
const Suspended = "ReconciliationSuspended"

// reportSuspended writes, once, that an instance is suspended; every other field of its status
// stays. What its inventory names stays watched; an event of the instance itself resumes it.
func (r *Reconciler) reportSuspended(ctx context.Context, s *subject, why string) reconcile.Result {
	status := report.Read(s.instance)
	previousState := status.State
	status.State = r.Dialect.State(v1alpha1.InstanceSuspended)
	status.Conditions = r.Dialect.SuspendedConditions(status.Conditions, why, Moment{r.Now(), s.instance.GetGeneration()})
	author, _, _ := unstructured.NestedMap(s.instance.Object, "status")
	if out := r.writeStatus(ctx, s, status.Render(author, r.statusFields(s))); out.IsFinal() {
		r.recordStatusRefusal(s, out.Err)
		return out
	}
	r.Readiness.note(s.key, Readiness{Reason: Suspended, Message: why})
	if status.State != "" && previousState != status.State {
		r.Events.Event(s.instance, telemetry.Normal, "Suspended", "requested by "+r.annotatedBy(ctx, s, v1alpha1.ReconcileAnnotation))
	}
	return reconcile.Done()
}

// An event is recorded if the instance was suspended before.
func (r *Reconciler) recordResumed(s *subject, previousState v1alpha1.InstanceState) {
	if previousState == v1alpha1.InstanceSuspended {
		r.Events.Event(s.instance, telemetry.Normal, "Resumed", "the instance is reconciled again")
	}
}
