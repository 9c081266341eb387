package instance

import (
	"context"
	"errors"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/plan"
	"github.com/espalier-dev/espalier/internal/report"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// move asks for objects to go, takes the instance's marks off those that stay, and
// marks those that are retained, side by side. What stays keeps no reference to the
// instance as its owner. It notes what came of it, and
// reports whether any was refused.
func (r *Reconciler) move(ctx context.Context, v *visit, m plan.Move) (refused bool) {
	var calls []*call
	for _, o := range m.Delete {
		calls = append(calls, &call{o: o, verb: "delete", do: func() error { return r.Cluster.DeleteAsSeen(ctx, o, metav1.DeletePropagationBackground) }})
	}
	change := func(o *unstructured.Unstructured, to map[string]any) *call {
		return &call{o: o, verb: "patch", do: func() error { return r.Cluster.Change(ctx, o, to, v1alpha1.ChildManager) }}
	}
	for _, o := range m.Release {
		c := change(o, inventory.Released(o, v.instance))
		c.releases = true
		calls = append(calls, c)
	}
	for _, o := range m.Retain {
		calls = append(calls, change(o, inventory.Retained(o, v.instance)))
	}
	for _, o := range m.Disown {
		calls = append(calls, change(o, inventory.Disowned(o, v.instance)))
	}
	work := make([]func() error, len(calls))
	for i, c := range calls {
		work[i] = func() error { r.make(ctx, c); return nil }
	}
	v.failures = append(v.failures, sideBySide(work)...)
	return r.takeAnswers(v, calls)
}

// call is one request about an object that is to go or to stay.
type call struct {
	o        *unstructured.Unstructured
	verb     string
	releases bool
	do       func() error

	made    bool
	reason  report.Reason // why it was refused; empty if it wasn't
	message string
}

func (r *Reconciler) make(ctx context.Context, c *call) {
	err := c.do()
	if errors.Is(err, cluster.ErrChanged) {
		return // that is an event, which brings the next pass
	}
	if err != nil {
		c.reason, c.message = r.Cluster.WhyNot(ctx, c.o, c.verb, err)
		logr.FromContextOrDiscard(ctx).Info("an object doesn't go", "object", object.KeyOf(c.o), "verb", c.verb, "reason", c.reason, "message", c.message)
	}
	c.made = true // a panic is told as a failure
}

func (r *Reconciler) takeAnswers(v *visit, calls []*call) (refused bool) {
	now := r.Now()
	var released []*unstructured.Unstructured
	for _, c := range calls {
		switch {
		case !c.made:
		case c.reason != "":
			refused = true
			v.memory.try(c.o, func(t plan.Trial) plan.Trial { return t.Refused(c.reason, c.message, c.o, now) })
		default:
			v.memory.try(c.o, func(t plan.Trial) plan.Trial { return t.Granted(now) })
			if c.releases {
				released = append(released, c.o)
			}
		}
	}
	if len(released) > 0 {
		r.Events.Event(v.instance, telemetry.Normal, "Orphaned", "left in place, without the labels of this instance: "+listed(released))
	}
	return refused
}
