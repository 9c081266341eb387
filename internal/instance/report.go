package instance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// report writes the instance's status, if it says anything new, records events of transitions,
// and says when to reconcile again. The lease is committed first: what this reconcile has read
// stays watched.
func (r *Reconciler) report(ctx context.Context, s *reconcileState) reconcile.Result {
	s.lease.Commit()
	traceUnapplied(ctx, s.plan)
	return r.reportSummary(ctx, s)
}

func (r *Reconciler) reportSummary(ctx context.Context, s *reconcileState) reconcile.Result {
	summary := plan.Summarize(s.plan, s.facts.Now)
	if s.inventoryProblem.Reason != "" {
		summary = summary.WithInventoryProblem(s.inventoryProblem)
	}
	stored, storedState := condition.Read(s.instance), report.StateOf(s.instance)
	at := Moment{s.facts.Now, s.instance.GetGeneration()}
	previous := stored
	if s.desired.AuthorConditions != nil {
		previous = s.memory.dialectConditions // those in the status are the author's
	}
	conditions := markIgnoredOverrides(r.Dialect.LiveConditions(previous, s.desired, summary, at), r.ignoredOverrides(s, desiredPolicies(s.desired.Nodes)), at)
	shown := s.authorConditions(stored, conditions, &summary, at)
	status := report.Status{
		State: r.Dialect.State(summary.State), Conditions: shown, ObservedGeneration: at.Generation, Waiting: plan.Waiting(summary.Waits, s.facts.Now),
		Pruning: s.pruning, Skipped: skipped(s.plan.Steps), Problems: s.nodeProblems(),
	}
	revision := s.instance.GetResourceVersion()
	rendered := status.Render(s.desired.Status, s.composer.StatusFields())
	switch out := r.writeStatus(ctx, s, rendered); {
	case kube.IsTooLarge(out.Err) && !s.statusTooLarge:
		return r.reportStatusTooLarge(ctx, s, rendered)
	case out.Err != nil:
		r.recordStatusRefusal(s, out.Err)
		return reconcile.Fail(errors.Join(append(s.errs, out.Err)...))
	case out.IsFinal():
		return out
	}
	r.noteReadiness(s, conditions, shown)
	r.measurePropagation(s, s.instance.GetResourceVersion() != revision)
	s.forgetGone()
	s.memory.logWaits(logr.FromContextOrDiscard(ctx), summary.Waits, s.facts.Now)
	r.recordResumed(s, storedState)
	r.recordTransition(s, previous, conditions)
	r.recordDrift(s, previous, conditions)
	r.recordIgnoredOverrides(s, previous, conditions)
	r.recordResults(s, stored)
	if err := errors.Join(append(s.errs, s.lookupErr)...); err != nil {
		return reconcile.Fail(err)
	}
	return requeue(soonest(s.requeueAfter, s.pruneAfter, s.obstacleAfter, s.conflictAfter, summary.Retry, s.desired.RequeueAfter))
}

// reportStatusTooLarge reports that the API server does not store the desired status. The author's part of the status stays as it
// was stored last.
func (r *Reconciler) reportStatusTooLarge(ctx context.Context, s *reconcileState, status map[string]any) reconcile.Result {
	size := 0
	if text, err := json.Marshal(status); err == nil {
		size = len(text)
	}
	s.statusTooLarge = true
	s.desired.Status, _, _ = unstructured.NestedMap(s.instance.Object, "status")
	s.desired.Problem = plan.Problem{Reason: plan.Rejected,
		Message: fmt.Sprintf("the desired status has %d KiB, more than the API server stores; the fields of the status are outdated", size>>10)}
	s.plan.Problem = s.desired.Problem
	s.requeueAfter = statusTooLargeRetry
	return r.reportSummary(ctx, s)
}

// statusTooLargeRetry is when a status that was too large is computed and written again.
const statusTooLargeRetry = time.Minute

// A delay of 0 counts as none.
func soonest(delays ...time.Duration) time.Duration {
	var out time.Duration
	for _, d := range delays {
		if d > 0 && (out == 0 || d < out) {
			out = d
		}
	}
	return out
}

// Their times are taken from the memory, or after a restart from the status.
func (s *reconcileState) nodeProblems() []report.Problem {
	s.memory.problems = plan.Problems(s.plan.Steps, s.reportedProblems(), s.facts.Now)
	return s.memory.problems
}

func (s *reconcileState) reportedProblems() []report.Problem {
	if len(s.memory.problems) > 0 {
		return s.memory.problems
	}
	return report.ReadProblems(s.instance)
}

// It is the zero value if the status has none.
func (s *reconcileState) reportedProblem(node string) plan.Problem {
	for _, p := range s.reportedProblems() {
		if p.Node == node {
			return plan.Problem{Reason: plan.Reason(p.Reason), Message: p.Message}
		}
	}
	return plan.Problem{}
}

// maxSkipped bounds the resources that the status lists as left out.
const maxSkipped = 50

func skipped(steps []plan.Step) []report.Skipped {
	var out []report.Skipped
	for _, step := range steps {
		if l := step.SkipCause; l != nil && len(out) < maxSkipped {
			out = append(out, report.Skipped{Node: step.Node, By: l.By, Condition: l.Condition, Inputs: l.Inputs})
		}
	}
	return out
}

// The status says something new. The result is final if the write fails.
func (r *Reconciler) writeStatus(ctx context.Context, s *reconcileState, status map[string]any) reconcile.Result {
	current, _, _ := unstructured.NestedFieldNoCopy(s.instance.Object, "status")
	if equalJSON(current, status) || equalJSON(current, report.WithoutAddedGeneration(current, status)) {
		return reconcile.Result{}
	}
	answer, err := r.write(s, s.instance, func() (*unstructured.Unstructured, error) {
		return r.Cluster.WriteStatus(ctx, s.instance, status, v1alpha1.StatusManager)
	})
	if kube.IsStale(err) {
		return reconcile.Conflict()
	}
	if err != nil {
		// The author's fields may come from a Secret.
		return reconcile.Fail(fmt.Errorf("write status: %w", kube.Redacted(err)))
	}
	s.memory.refusals.Clear(telemetry.FailedStatusUpdate)
	s.requeueAfter = soonest(s.requeueAfter, r.Cluster.StatusRecheck(r.Kind))
	if answer.GetResourceVersion() == s.instance.GetResourceVersion() {
		return reconcile.Result{} // it is stored already, but for fields that the schema lacks
	}
	s.setInstance(answer)
	r.startPropagation(s)
	return reconcile.Result{}
}

// A retry would not succeed.
func (r *Reconciler) recordStatusRefusal(s *reconcileState, err error) {
	if kube.IsPermanent(err) {
		message := "the status is outdated: " + err.Error()
		if apierrors.IsForbidden(err) {
			message += r.grantHint(s.key.Namespace)
		}
		s.memory.refusals.Record(r.Events, s.instance, telemetry.FailedStatusUpdate, message)
	}
}

// equalJSON compares as JSON: 3 and 3.0 are one number to the server.
func equalJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// Each result becomes one event for as long as it lasts. After a restart, results of an instance with a status of its
// current generation aren't new.
func (r *Reconciler) recordResults(s *reconcileState, stored condition.Set) {
	ready, _ := stored.Get(v1alpha1.InstanceReady)
	known := s.memory.recordedResults == nil && ready.ObservedGeneration == s.instance.GetGeneration()
	current := make(map[plan.Result]bool, len(s.desired.Results))
	for _, result := range s.desired.Results {
		if !known && !current[result] && !s.memory.recordedResults[result] {
			r.recordResult(s, result)
		}
		current[result] = true
	}
	s.memory.recordedResults = current
}

// If it is for the users of the instance, its claim gets the event too.
func (r *Reconciler) recordResult(s *reconcileState, result plan.Result) {
	severity := telemetry.Normal
	if result.Warning {
		severity = telemetry.Warning
	}
	r.Events.Event(s.instance, severity, result.Reason, result.Message)
	key, version, claimed := inventory.ClaimedBy(s.instance)
	if !claimed || !result.Claim {
		return
	}
	if claim, there := r.Instances.GetCached(key.GroupKind().WithVersion(version), key.Namespace, key.Name); there {
		r.Events.Event(claim, severity, result.Reason, result.Message)
	}
}

// recordTransition records an event when there is a problem that may need an action of a user,
// and one when it is solved. A problem that only lasts is no event.
func (r *Reconciler) recordTransition(s *reconcileState, previous, current condition.Set) {
	previousReason, _ := r.Dialect.Problem(previous)
	reason, message := r.Dialect.Problem(current)
	switch {
	case reason != "" && reason != previousReason:
		s.memory.problemRecorded = true
		r.Events.Event(s.instance, telemetry.Warning, reason, message)
	case reason == "" && s.memory.problemRecorded && current.IsTrue(v1alpha1.InstanceReady):
		s.memory.problemRecorded = false
		r.Events.Event(s.instance, telemetry.Normal, "Ready", "all resources exist and are ready again")
	}
}

// An event tells that fields have drifted and are left so, that other fields have, and that none have any more.
func (r *Reconciler) recordDrift(s *reconcileState, previous, current condition.Set) {
	known, hadDrift := previous.Get(v1alpha1.InstanceDrifted)
	drift, hasDrift := current.Get(v1alpha1.InstanceDrifted)
	switch {
	case hasDrift && drift.Message != known.Message:
		r.Events.Event(s.instance, telemetry.Warning, DriftDetected, drift.Message)
	case hadDrift && !hasDrift:
		r.Events.Event(s.instance, telemetry.Normal, "DriftEnded", "all fields have their desired values again")
	}
}
