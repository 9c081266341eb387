package instance

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/plan"
	"github.com/espalier-dev/espalier/internal/report"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// recreate deletes, in the foreground, objects whose updates the API server has rejected and
// that may be created anew. Creating them is what any later pass does once they are gone. An
// object is deleted only if the server would accept it as a new one, and nothing protects or
// uses it.
func (r *Reconciler) recreate(ctx context.Context, v *visit, results []result) {
	index := map[*unstructured.Unstructured]int{}
	var going []*unstructured.Unstructured
	for i, res := range results {
		step := v.plan.Steps[i]
		if !cluster.IsInvalid(res.err) {
			continue
		}
		may, hint := step.Recreates(res.err.Error())
		if !may {
			results[i].hint = hint
			continue
		}
		if err := r.Cluster.TryCreate(ctx, step.Object, v1alpha1.ChildManager); err != nil {
			if cluster.Passes(err) {
				v.failures = append(v.failures, err)
			}
			results[i].hint = "it is not recreated, since a new one would be refused as well: " + toldOf(step, err)
			continue
		}
		index[step.Current] = i
		going = append(going, step.Current)
	}
	if len(going) == 0 {
		return
	}
	v.recreates = true
	now := r.Now()
	remains := plan.Remains{Instance: v.instance, Children: going, Tried: v.memory.tried, Now: now}
	if !r.observeUses(v, &remains, going...) {
		for _, i := range index {
			results[i].hint = "it is recreated once it is known whether it is in use"
		}
		return
	}
	ask, held, again := plan.Delete(remains)
	for o, by := range held {
		results[index[o]].hint = whyKept(by)
	}
	if again > 0 {
		v.retry = again
	}
	for _, o := range ask {
		i := index[o]
		results[i] = r.deleteForAnother(ctx, v, v.plan.Steps[i], results[i].err)
	}
}

// deleteForAnother asks for the deletion of an object that is to be created anew, and tells
// of it.
func (r *Reconciler) deleteForAnother(ctx context.Context, v *visit, step plan.Step, rejected error) result {
	o := step.Current
	why := toldOf(step, rejected)
	c := &call{o: o, verb: "delete", do: func() error { return r.Cluster.DeleteAsSeen(ctx, o, metav1.DeletePropagationForeground) }}
	r.make(ctx, c)
	if r.takeAnswers(v, []*call{c}) {
		return result{err: rejected, hint: fmt.Sprintf("it can't be deleted to be created anew: %s: %s", c.reason, c.message)}
	}
	r.Events.Event(v.instance, telemetry.Warning, "Recreating", fmt.Sprintf("%s: %s is deleted and created anew, since its update was rejected: %s", step.Node, nameOf(step), why))
	problem := plan.Recreating(o, why)
	return result{deleting: &problem}
}

// nameOf names a step's object, unless the name may be what a Secret holds.
func nameOf(step plan.Step) string {
	if step.Conceals {
		return step.Object.GetKind()
	}
	return object.KeyOf(step.Object).String()
}

// toldOf is an error about a step's object in a text for people.
func toldOf(step plan.Step, err error) string {
	if step.Conceals {
		return cluster.Quiet(err).Error()
	}
	return cluster.Plain(err).Error()
}

func whyKept(by *report.Blocker) string {
	if by == nil {
		return "its deletion was accepted and isn't observed yet"
	}
	return "it is not recreated: " + by.Message
}
