package operation

import (
	"context"
	"errors"
	"strings"

	opsv1alpha1 "github.com/espalier-dev/espalier/api/ops/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/operation/plan"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/kube/writer"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// Operations reconciles Operations. They are to be enqueued when a function changes.
type Operations struct{ Config }

// Reconcile makes one attempt, unless the operation has ended.
func (r *Operations) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	raw, ok := r.Hub.GetCached(Kind, "", key.Name)
	if !ok || raw.GetDeletionTimestamp() != nil || hasEnded(condition.Read(raw)) {
		r.Hub.Forget(watch.Subscriber{Key: key})
		return reconcile.Done()
	}
	o := &writer.Object{Unstructured: raw}
	op, err := decode[opsv1alpha1.Operation](raw)
	if err != nil {
		return reconcile.Fail(err)
	}
	if out, waits := r.suspended(ctx, o, &op.Status); waits {
		return out
	}
	valid := r.validPipeline(op)
	if valid.Status != condition.True {
		return r.writeStatus(ctx, o, &op.Status, valid, synced("waiting for functions: "+valid.Message)).OrDone() // a function wakes it
	}
	account, err := r.accountOf(op.Spec)
	if err != nil {
		if errors.As(err, new(noAccountError)) {
			return r.writeStatus(ctx, o, &op.Status, valid, synced(err.Error())).OrDone()
		}
		return reconcile.Fail(err)
	}
	running := mark(opsv1alpha1.TypeSucceeded, condition.Unknown, opsv1alpha1.ReasonPipelineRunning, "")
	if out := r.writeStatus(ctx, o, &op.Status, valid, running); out.IsFinal() { // a stale read is refused before anything is done
		return out
	}
	result := r.attempt(ctx, o.Unstructured, op, account)
	if ctx.Err() != nil { // this program ends: that is no failure of the operation
		return reconcile.Fail(context.Cause(ctx))
	}
	return r.report(ctx, o, op, result)
}

// hasEnded reports whether an operation has ended, for good.
func hasEnded(all condition.Set) bool {
	c, _ := all.Get(opsv1alpha1.TypeSucceeded)
	return c.Status == condition.True || c.Status == condition.False
}

// validPipeline is the condition ValidPipeline: whether all functions can be called.
func (r *Operations) validPipeline(op *opsv1alpha1.Operation) (out v1alpha1.Condition) {
	var problems []string
	for _, step := range op.Spec.Pipeline {
		if problem := r.Functions.Problem(step.FunctionRef.Name); problem != "" {
			problems = append(problems, "step "+step.Step+": function "+step.FunctionRef.Name+": "+problem)
		}
	}
	if len(problems) > 0 {
		return mark(opsv1alpha1.TypeValidPipeline, condition.False, opsv1alpha1.ReasonMissingCapabilities, strings.Join(problems, "\n"))
	}
	return mark(opsv1alpha1.TypeValidPipeline, condition.True, opsv1alpha1.ReasonValidPipeline, "")
}

// report writes the result of an attempt.
func (r *Operations) report(ctx context.Context, o *writer.Object, op *opsv1alpha1.Operation, result result) reconcile.Result {
	op.Status.AppliedResourceRefs = merge(op.Status.AppliedResourceRefs, result.applied)
	if result.failure == nil {
		op.Status.Pipeline = result.outputs
		r.Events.Event(o.Unstructured, telemetry.Normal, opsv1alpha1.ReasonPipelineSuccess, "applied "+diag.Counted(len(result.applied), "object", "objects"))
		return r.writeStatus(ctx, o, &op.Status, synced(""), mark(opsv1alpha1.TypeSucceeded, condition.True, opsv1alpha1.ReasonPipelineSuccess, "")).OrDone()
	}
	op.Status.Failures++
	message := result.failure.Error()
	r.Events.Event(o.Unstructured, telemetry.Warning, opsv1alpha1.ReasonPipelineError, message)
	after, again := plan.Retry(op.Status.Failures, retryLimit(op), result.permanent)
	if !again {
		failed := mark(opsv1alpha1.TypeSucceeded, condition.False, opsv1alpha1.ReasonPipelineError, message)
		return r.writeStatus(ctx, o, &op.Status, synced(""), failed).OrDone() // as Crossplane: nothing is left to be done
	}
	if out := r.writeStatus(ctx, o, &op.Status, synced(message)); out.IsFinal() {
		return out
	}
	return reconcile.FailAfter(result.failure, after)
}

// retryLimit has the default of the CustomResourceDefinition, for one that another program has installed.
func retryLimit(op *opsv1alpha1.Operation) int64 {
	if op.Spec.RetryLimit == nil {
		return 5
	}
	return *op.Spec.RetryLimit
}
