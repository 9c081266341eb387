package operation

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	opsv1alpha1 "github.com/espalier-dev/espalier/api/ops/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/operation/plan"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/kube/writer"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// CronOperations reconciles CronOperations.
type CronOperations struct{ Config }

// Reconcile makes the operation that is due, deletes those that are too many, and wakes up at the next time of the schedule.
func (r *CronOperations) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	raw, ok := r.Hub.GetCached(CronKind, "", key.Name)
	subscriber := watch.Subscriber{Key: key}
	if !ok || raw.GetDeletionTimestamp() != nil { // the garbage collector deletes its operations
		r.Hub.Forget(subscriber)
		return reconcile.Done()
	}
	cron, err := decode[opsv1alpha1.CronOperation](raw)
	if err != nil {
		return reconcile.Fail(err)
	}
	g := &generator{Config: r.Config, key: key, object: &writer.Object{Unstructured: raw}, label: opsv1alpha1.CronOperationLabel,
		settings: &cron.Spec.OperationSettings, lease: r.Hub.Begin(subscriber)}
	defer g.lease.Commit()
	pause := mark(opsv1alpha1.TypeScheduling, condition.False, opsv1alpha1.ReasonSchedulePaused, "the annotation "+PausedAnnotation+" is true")
	if out, waits := r.suspended(ctx, g.object, &cron.Status, pause); waits {
		return out
	}
	if !g.readOperations() {
		return reconcile.Done()
	}
	schedule, err := plan.ParseSchedule(cron.Spec.Schedule)
	if err != nil {
		invalid := mark(opsv1alpha1.TypeScheduling, condition.False, opsv1alpha1.ReasonScheduleInvalid, "spec.schedule: "+err.Error())
		g.describe(&cron.Status)
		out, _ := g.end(ctx, &cron.Status, g.collect(ctx), invalid)
		return out
	}
	facts := plan.Cron{Schedule: schedule, Now: r.Now(), Last: lastSlot(cron, g.operations), Policy: cron.Spec.ConcurrencyPolicy, Operations: g.operations}
	if seconds := cron.Spec.StartingDeadlineSeconds; seconds != nil {
		deadline := time.Duration(*seconds) * time.Second
		facts.Deadline = &deadline
	}
	step := facts.Next()
	err = g.makeDue(ctx, cron, step)
	g.describe(&cron.Status)
	if err == nil {
		err = g.collect(ctx)
	}
	active := mark(opsv1alpha1.TypeScheduling, condition.True, opsv1alpha1.ReasonScheduleActive, step.Waits)
	out, _ := g.end(ctx, &cron.Status, err, active)
	return out.Within(step.After)
}

// makeDue makes the operation that is due.
func (g *generator) makeDue(ctx context.Context, cron *opsv1alpha1.CronOperation, step plan.CronStep) error {
	if step.Slot.IsZero() {
		return nil
	}
	if err := g.delete(ctx, "replaced by the next one", step.Replaced...); err != nil {
		return err
	}
	o, err := CronOperation(g.object.Unstructured, step.Slot)
	if err == nil {
		err = g.create(ctx, o)
	}
	if err == nil {
		cron.Status.LastScheduleTime = timeOf(step.Slot)
	}
	return err
}

// lastSlot is the last time that an operation was made for: history may have no operation any more, and a crash may have come before the
// status.
func lastSlot(cron *opsv1alpha1.CronOperation, operations []plan.Operation) time.Time {
	last := cron.CreationTimestamp.Time
	if s := cron.Status.LastScheduleTime; s != nil && s.After(last) {
		last = s.Time
	}
	for _, o := range operations {
		if slot, ok := plan.CronSlot(cron.Name, o.Name); ok && slot.After(last) {
			last = slot
		}
	}
	return last
}

// CronOperation is the operation that a CronOperation makes for a time.
func CronOperation(owner *unstructured.Unstructured, slot time.Time) (*unstructured.Unstructured, error) {
	cron, err := decode[opsv1alpha1.CronOperation](owner)
	if err != nil {
		return nil, err
	}
	return newOperation(owner, cron.Spec.OperationTemplate, plan.CronName(owner.GetName(), slot), opsv1alpha1.CronOperationLabel)
}

// FirstSlot is the first time of the schedule of a CronOperation after another time.
func FirstSlot(owner *unstructured.Unstructured, after time.Time) (time.Time, error) {
	text, _, _ := unstructured.NestedString(owner.Object, "spec", "schedule")
	schedule, err := plan.ParseSchedule(text)
	if err != nil {
		return after, fmt.Errorf("spec.schedule: %w", err)
	}
	return schedule.Next(after.UTC()), nil
}
