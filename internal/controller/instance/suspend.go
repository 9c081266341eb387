package instance

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/report"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// Resting is an instance while it is suspended. It can be deleted all the same: who
// has stopped a thing from changing hasn't asked for it to stay.
func (Graphs) Resting(instance *unstructured.Unstructured) string {
	if instance.GetDeletionTimestamp() != nil || !suspended(instance) {
		return ""
	}
	return fmt.Sprintf("nothing is changed while the annotation %s is %q; remove it to go on",
		v1alpha1.ReconcileAnnotation, instance.GetAnnotations()[v1alpha1.ReconcileAnnotation])
}

// suspended says whether somebody has asked for an instance to be left alone. Another
// value of the annotation asks for nothing.
func suspended(instance *unstructured.Unstructured) bool {
	value := instance.GetAnnotations()[v1alpha1.ReconcileAnnotation]
	return strings.EqualFold(value, v1alpha1.ReconcileSuspended) || strings.EqualFold(value, v1alpha1.ReconcileDisabled)
}

// Rest says that it isn't known any more whether the resources are as wanted. What was
// told of them otherwise stays, and so does what the author tells: where the conditions
// are his, it only says so of those.
func (Graphs) Rest(set condition.Set, why string, at Moment) condition.Set {
	_, own := set.Get(v1alpha1.InstanceManaged)
	authors := len(set) > 0 && !own
	for _, kind := range []string{v1alpha1.InstanceResourcesReady, v1alpha1.InstanceReady} {
		if _, there := set.Get(kind); authors && !there {
			continue
		}
		set = at.Mark(set, v1alpha1.Condition{Type: kind, Status: condition.False, Reason: Suspended, Message: why})
	}
	return set
}

// Suspended is the reason of conditions while nothing is done about an instance.
const Suspended = "ReconciliationSuspended"

// rest tells that an instance is left alone, once, and that is all: every other field of
// its status keeps what it had. What it recorded stays watched; an event of its own ends
// the rest.
func (r *Reconciler) rest(ctx context.Context, v *visit, why string) outcome.Outcome {
	said := report.Read(v.instance)
	was := said.State
	said.State = r.Dialect.State(v1alpha1.InstanceSuspended)
	said.Conditions = r.Dialect.Rest(said.Conditions, why, Moment{r.Now(), v.instance.GetGeneration()})
	author, _, _ := unstructured.NestedMap(v.instance.Object, "status")
	if out := r.writeStatus(ctx, v, said.Render(author, r.room(v))); out.Settled() {
		r.untold(v, out.Err)
		return out
	}
	r.Standings.note(v.key, Standing{Reason: Suspended, Message: why})
	if said.State != "" && was != said.State {
		r.Events.Event(v.instance, telemetry.Normal, "Suspended", "asked for by "+r.whoSet(ctx, v, v1alpha1.ReconcileAnnotation))
	}
	return outcome.Done()
}

// resumed tells that an instance which was suspended is looked after again.
func (r *Reconciler) resumed(v *visit, before v1alpha1.InstanceState) {
	if before == v1alpha1.InstanceSuspended {
		r.Events.Event(v.instance, telemetry.Normal, "Resumed", "the instance is looked after again")
	}
}
