package instance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
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
func (r *Reconciler) report(ctx context.Context, s *subject, f findings) reconcile.Result {
	s.lease.Commit()
	traceUnapplied(ctx, f.plan)
	return r.reportSummary(ctx, s, f)
}

// findings are what a reconcile reports.
type findings struct {
	round
	// inventoryProblem is why the inventory cannot be written; zero if it can.
	inventoryProblem plan.Problem
	// pruning are the objects that nothing wants and that are not gone.
	pruning []report.Blocker
	// tooLarge says that the API server does not store the desired status.
	tooLarge bool
}

func (r *Reconciler) reportSummary(ctx context.Context, s *subject, f findings) reconcile.Result {
	now := f.facts.Now
	summary := plan.Summarize(f.plan, now)
	if f.inventoryProblem.Reason != "" {
		summary = summary.WithInventoryProblem(f.inventoryProblem)
	}
	stored, storedState := condition.Read(s.instance), report.StateOf(s.instance)
	at := Moment{now, s.instance.GetGeneration()}
	previous := stored
	if f.desired.AuthorConditions != nil {
		previous = s.memory.dialectConditions // those in the status are the author's
	}
	ignored := r.ignoredOverrides(s, f.facts.Defaults, desiredPolicies(f.desired.Nodes))
	conditions := markIgnoredOverrides(r.Dialect.LiveConditions(previous, f.desired, summary, at), ignored, at)
	shown, authors := s.memory.authorConditions(f.desired, stored, conditions, at)
	results := f.desired.Results
	if failed := authors.Problems; len(failed) > 0 {
		summary.State = v1alpha1.InstanceError
		results = append(slices.Clone(results), plan.Result{Warning: true, Reason: "ConditionFailed", Message: strings.Join(failed, "; ")})
	}
	status := report.Status{
		State: r.Dialect.State(summary.State), Conditions: shown, ObservedGeneration: at.Generation, Waiting: plan.Waiting(summary.Waits, now),
		Pruning: f.pruning, Skipped: skipped(f.plan.Steps), Problems: s.nodeProblems(f.plan.Steps, now),
	}
	revision := s.instance.GetResourceVersion()
	rendered := status.Render(f.desired.Status, s.composer.StatusFields())
	if r.Contributes {
		rendered = report.WithContributions(rendered, r.contributions(s))
	}
	switch out := r.writeStatus(ctx, s, rendered); {
	case kube.IsTooLarge(out.Err) && !f.tooLarge:
		return r.reportStatusTooLarge(ctx, s, f, rendered)
	case out.Err != nil:
		r.recordStatusRefusal(s, out.Err)
		return reconcile.Fail(errors.Join(append(s.errs, out.Err)...))
	case out.IsFinal():
		return out
	}
	r.noteReadiness(s, conditions, shown)
	r.measurePropagation(s, f.facts, s.instance.GetResourceVersion() != revision)
	s.memory.forgetGone(f.round)
	s.memory.logWaits(logr.FromContextOrDiscard(ctx), summary.Waits, now)
	r.recordResumed(s, storedState)
	r.recordTransition(s, previous, conditions)
	r.recordDrift(s, previous, conditions)
	r.recordIgnoredOverrides(s, previous, conditions)
	r.recordResults(s, results, stored)
	if err := errors.Join(append(s.errs, f.lookupErr)...); err != nil {
		return reconcile.Fail(err)
	}
	return requeue(soonest(s.again, summary.Retry, f.desired.RequeueAfter, authors.RequeueAfter))
}

// reportStatusTooLarge reports that the API server does not store the desired status. The author's part of the status stays as it
// was stored last.
func (r *Reconciler) reportStatusTooLarge(ctx context.Context, s *subject, f findings, status map[string]any) reconcile.Result {
	size := 0
	if text, err := json.Marshal(status); err == nil {
		size = len(text)
	}
	f.tooLarge = true
	f.desired.Status, _, _ = unstructured.NestedMap(s.instance.Object, "status")
	f.desired.Problem = plan.Problem{Reason: plan.Rejected,
		Message: fmt.Sprintf("the desired status has %d KiB, more than the API server stores; the fields of the status are outdated", size>>10)}
	f.plan.Problem = f.desired.Problem
	s.requeue(statusTooLargeRetry)
	return r.reportSummary(ctx, s, f)
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
func (s *subject) nodeProblems(steps []plan.Step, now time.Time) []report.Problem {
	s.memory.problems = plan.Problems(steps, s.reportedProblems(), now)
	return s.memory.problems
}

func (s *subject) reportedProblems() []report.Problem {
	if len(s.memory.problems) > 0 {
		return s.memory.problems
	}
	return report.ReadProblems(s.instance)
}

// It is the zero value if the status has none.
func (s *subject) reportedProblem(node string) plan.Problem {
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
func (r *Reconciler) writeStatus(ctx context.Context, s *subject, status map[string]any) reconcile.Result {
	current, _, _ := unstructured.NestedFieldNoCopy(s.instance.Object, "status")
	if equalJSON(current, status) || equalJSON(current, report.WithoutAddedGeneration(current, status)) {
		return reconcile.Result{}
	}
	answer, err := r.write(s, s.instance, func() (*unstructured.Unstructured, error) {
		return r.self().WriteStatus(ctx, s.instance, status, v1alpha1.StatusManager)
	})
	if kube.IsStale(err) {
		return reconcile.Conflict()
	}
	if err != nil {
		// The author's fields may come from a Secret.
		return reconcile.Fail(fmt.Errorf("write status: %w", kube.Redacted(err)))
	}
	s.memory.refusals.Clear(telemetry.FailedStatusUpdate)
	s.requeue(r.self().StatusRecheck(r.Kind))
	if answer.GetResourceVersion() == s.instance.GetResourceVersion() {
		return reconcile.Result{} // it is stored already, but for fields that the schema lacks
	}
	s.instance = answer
	r.startPropagation(s)
	return reconcile.Result{}
}

// A retry would not succeed.
func (r *Reconciler) recordStatusRefusal(s *subject, err error) {
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
func (r *Reconciler) recordResults(s *subject, results []plan.Result, stored condition.Set) {
	ready, _ := stored.Get(v1alpha1.InstanceReady)
	known := s.memory.recordedResults == nil && ready.ObservedGeneration == s.instance.GetGeneration()
	current := make(map[plan.Result]bool, len(results))
	for _, result := range results {
		if !known && !current[result] && !s.memory.recordedResults[result] {
			r.recordResult(s, result)
		}
		current[result] = true
	}
	s.memory.recordedResults = current
}

// If it is for the users of the instance, its claim gets the event too.
func (r *Reconciler) recordResult(s *subject, result plan.Result) {
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
func (r *Reconciler) recordTransition(s *subject, previous, current condition.Set) {
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
func (r *Reconciler) recordDrift(s *subject, previous, current condition.Set) {
	known, hadDrift := previous.Get(v1alpha1.InstanceDrifted)
	drift, hasDrift := current.Get(v1alpha1.InstanceDrifted)
	switch {
	case hasDrift && drift.Message != known.Message:
		r.Events.Event(s.instance, telemetry.Warning, DriftDetected, drift.Message)
	case hadDrift && !hasDrift:
		r.Events.Event(s.instance, telemetry.Normal, "DriftEnded", "all fields have their desired values again")
	}
}
