package definition

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/revision"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// Reasons of a definition with a rollout under way.
const (
	rollingOutReason = "RollingOut"
	rolloutPaused    = "RolloutPaused"
	// kindNotReady is of a revision that somebody asks for and that the kind has no room for.
	kindNotReady = "KindNotReady"
)

// resolvedCondition says whether instances are composed by the revision that the definition asks for.
func resolvedCondition(v *session) (status metav1.ConditionStatus, reason, message string) {
	rollout := v.rollout.step.Next.Rollout
	switch {
	case v.choice.obstacle.reason != "":
		return condition.False, v.choice.obstacle.reason, v.choice.obstacle.message + servingNote(v)
	case v.history.unrecorded.reason != "" && v.history.unrecorded.meant:
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
		return condition.True, string(v.choice.target.Why), servingMessage(v)
	case v.choice.target.Number != 0 && v.choice.target.Why != revision.Latest && v.rollout.step.Next.Serving != 0 && !v.readiness.Ready && !v.readiness.Unknown:
		return condition.False, kindNotReady, fmt.Sprintf("revision %d, which %s asks for, can't serve while the kind isn't ready for it: see KindReady", v.choice.target.Number, v.choice.target.Asked) + servingNote(v)
	case v.choice.target.Number != 0:
		return condition.True, string(v.choice.target.Why), fmt.Sprintf("revision %d compiled; it serves when the kind is ready", v.choice.target.Number) + servingNote(v)
	}
	return condition.Unknown, awaiting, awaitingMessage(v1alpha1.DefinitionRevisionsResolved)
}

// servingNote says what serves instead of what is asked for.
func servingNote(v *session) string {
	if n := v.rollout.step.Next.Serving; n != 0 {
		return fmt.Sprintf("; revision %d serves on", n)
	}
	return ""
}

// tellEvery is how often the counts of a rollout are told while nothing else changes: each
// telling is a write.
const tellEvery = time.Second

// statusDelay says when to look at the definition again, and leaves the counts of a rollout as
// they were told if that was only just.
func (r *Dialect) statusDelay(v *session) time.Duration {
	was, next := v.status.Rollout, v.rollout.step.Next.Rollout
	if was == nil || next == nil || !sameButCounts(was, next) {
		v.memory.rollout.reportedAt = r.Now()
		return v.rollout.step.Again
	}
	if object.Digest(was) == object.Digest(next) {
		return v.rollout.step.Again
	}
	if left := v.memory.rollout.reportedAt.Add(tellEvery).Sub(r.Now()); left > 0 && left <= tellEvery {
		v.rollout.step.Next.Rollout = was
		if v.rollout.step.Again == 0 || left < v.rollout.step.Again {
			return left
		}
		return v.rollout.step.Again
	}
	v.memory.rollout.reportedAt = r.Now()
	return v.rollout.step.Again
}

func sameButCounts(a, b *v1alpha1.RolloutStatus) bool {
	strip := func(s *v1alpha1.RolloutStatus) v1alpha1.RolloutStatus {
		out := *s.DeepCopy()
		out.Total, out.Updated, out.Ready, out.Pinned, out.Unready = 0, 0, 0, 0, nil
		return out
	}
	return object.Digest(strip(a)) == object.Digest(strip(b))
}

// recordTransitions tells what has become of revisions, once that is written, and goes on with what
// was written.
func (r *Dialect) recordTransitions(v *session) {
	for _, t := range v.rollout.step.Told {
		severity := telemetry.Normal
		if t.Warning {
			severity = telemetry.Warning
		}
		r.Events.Event(v.Unstructured, severity, t.Reason, t.Message)
		r.Rollouts.Happened(t.Reason)
	}
	if v.rollout.proceeding && composesOtherwise(v.rollout.step.Now, v.rollout.step.Next) || composesOtherwise(revision.StateOf(v.status), v.rollout.step.Next) {
		r.Wake(v.Key) // for what is composed by it, and for revisions that are out of use now
	}
}

// composesOtherwise says whether other instances are composed by another revision in the one state than
// in the other.
func composesOtherwise(a, b revision.State) bool {
	mark := func(s revision.State) string {
		if s.Rolling() == 0 {
			return object.Digest(s.Serving)
		}
		return object.Digest([]any{s.Serving, s.Rollout.Revision, s.Rollout.Wave, s.Rollout.Begun})
	}
	return mark(a) != mark(b)
}
