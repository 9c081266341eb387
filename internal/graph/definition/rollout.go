package definition

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/revision"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// Reasons of a definition during a rollout.
const (
	rollingOutReason = "RollingOut"
	rolloutPaused    = "RolloutPaused"
	// kindNotReady: the kind does not allow all fields of the requested revision yet.
	kindNotReady = v1alpha1.ReasonKindNotReady
)

// resolvedCondition reports whether the requested revision composes the instances.
func (v *session) resolvedCondition() (status metav1.ConditionStatus, reason, message string) {
	rollout := v.rollout.step.Next.Rollout
	switch {
	case v.choice.obstacle.reason != "":
		return condition.False, v.choice.obstacle.reason, v.choice.obstacle.message + v.servingNote()
	case v.history.unrecorded.reason != "" && v.history.unrecorded.intended:
		return condition.True, v.history.unrecorded.reason, v.history.unrecorded.message
	case v.history.unrecorded.reason != "":
		return condition.False, v.history.unrecorded.reason, v.history.unrecorded.message
	case v.rollout.step.Next.Rolling() != 0 && rollout.Phase == v1alpha1.RolloutStopped:
		return condition.False, revision.RolloutStopped, rolloutMessage(rollout)
	case v.rollout.step.Next.Rolling() != 0 && rollout.Phase == v1alpha1.RolloutPaused:
		return condition.Unknown, rolloutPaused, rolloutMessage(rollout)
	case v.rollout.step.Next.Rolling() != 0:
		return condition.Unknown, rollingOutReason, rolloutMessage(rollout)
	case v.rollout.step.Next.Serving != 0 && v.rollout.step.Next.Serving == v.choice.target.Number:
		return condition.True, string(v.choice.target.Reason), v.servingMessage()
	case v.choice.target.Number != 0 && v.choice.target.Reason != revision.Latest && v.rollout.step.Next.Serving != 0 && !v.readiness.Ready &&
		!v.readiness.Unknown:
		return condition.False, kindNotReady, fmt.Sprintf("revision %d, requested by %s, cannot serve until the kind is ready for it: see KindReady",
			v.choice.target.Number, v.choice.target.Source) + v.servingNote()
	case v.choice.target.Number != 0:
		return condition.True, string(v.choice.target.Reason), fmt.Sprintf("revision %d compiled; it serves when the kind is ready",
			v.choice.target.Number) + v.servingNote()
	}
	return condition.Unknown, awaiting, awaitingMessage(v1alpha1.DefinitionRevisionsResolved)
}

func (v *session) servingNote() string {
	if n := v.rollout.step.Next.Serving; n != 0 {
		return fmt.Sprintf("; revision %d continues to serve", n)
	}
	return ""
}

// rolloutReportInterval is the minimum time between two status writes that only change the counts of a
// rollout.
const rolloutReportInterval = time.Second

// statusDelay returns the delay of the next reconcile. It keeps the previous counts of a
// rollout if they were reported recently.
func (v *session) statusDelay() time.Duration {
	was, next := v.status.Rollout, v.rollout.step.Next.Rollout
	if was == nil || next == nil || !sameButCounts(was, next) {
		v.memory.rollout.reportedAt = v.Now()
		return v.rollout.step.RequeueAfter
	}
	if object.Digest(was) == object.Digest(next) {
		return v.rollout.step.RequeueAfter
	}
	if left := v.memory.rollout.reportedAt.Add(rolloutReportInterval).Sub(v.Now()); left > 0 && left <= rolloutReportInterval {
		v.rollout.step.Next.Rollout = was
		if v.rollout.step.RequeueAfter == 0 || left < v.rollout.step.RequeueAfter {
			return left
		}
		return v.rollout.step.RequeueAfter
	}
	v.memory.rollout.reportedAt = v.Now()
	return v.rollout.step.RequeueAfter
}

func sameButCounts(a, b *v1alpha1.RolloutStatus) bool {
	strip := func(s *v1alpha1.RolloutStatus) v1alpha1.RolloutStatus {
		out := *s.DeepCopy()
		out.Total, out.Updated, out.Ready, out.Pinned, out.Unready = 0, 0, 0, 0, nil
		return out
	}
	return object.Digest(strip(a)) == object.Digest(strip(b))
}

// recordTransitions records events of the rollout after the status is written.
func (v *session) recordTransitions() {
	for _, t := range v.rollout.step.Transitions {
		severity := telemetry.Normal
		if t.Warning {
			severity = telemetry.Warning
		}
		v.Events.Event(v.Unstructured, severity, t.Reason, t.Message)
		v.Rollouts.CountEvent(t.Reason)
	}
}

// followStatus composes the instances by the state that has just been written, and then enqueues the definition to
// delete the revisions that are unused now. A state that the API server has not stored, because the schema lacks it, changes
// nothing for the next reconcile.
func (v *session) followStatus(ctx context.Context) {
	step := &v.rollout.step
	if v.rollout.proceeding && composesOtherwise(step.Now, step.Next) {
		step.Now = step.Next
		v.setComposers(v.assembleComposers(ctx, v.rollout.served, v.rollout.graphs), v.fallbackAccount())
	}
	if composesOtherwise(revision.StateOf(v.status), revision.StateOf(statusOf(v.Unstructured))) {
		v.EnqueueDefinition(v.Key)
	}
}

// composesOtherwise reports whether two states compose some instance by different revisions.
func composesOtherwise(a, b revision.State) bool {
	digest := func(s revision.State) string {
		if s.Rolling() == 0 {
			return object.Digest(s.Serving)
		}
		return object.Digest([]any{s.Serving, s.Rollout.Revision, s.Rollout.Wave, s.Rollout.Begun})
	}
	return digest(a) != digest(b)
}
