package definition

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/revision"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// Reasons of a definition with a rollout under way.
const (
	rollingOutReason = "RollingOut"
	rolloutPaused    = "RolloutPaused"
	// kindNotReady is of a revision that somebody asks for and that the kind has no room for.
	kindNotReady = "KindNotReady"
)

// resolved says whether instances are composed by the revision that the definition asks for.
func resolved(v *visit) (status metav1.ConditionStatus, reason, message string) {
	rollout := v.step.Next.Rollout
	switch {
	case v.hitch.reason != "":
		return condition.False, v.hitch.reason, v.hitch.message + servesOn(v)
	case v.unkept.reason != "" && v.unkept.meant:
		return condition.True, v.unkept.reason, v.unkept.message
	case v.unkept.reason != "":
		return condition.False, v.unkept.reason, v.unkept.message
	case v.step.Next.Rolling() != 0 && rollout.Phase == v1alpha1.RolloutStopped:
		return condition.False, revision.RolloutStopped, rollingOut(rollout)
	case v.step.Next.Rolling() != 0 && rollout.Phase == v1alpha1.RolloutPaused:
		return condition.Unknown, rolloutPaused, rollingOut(rollout)
	case v.step.Next.Rolling() != 0:
		return condition.Unknown, rollingOutReason, rollingOut(rollout)
	case v.step.Next.Serving != 0 && v.step.Next.Serving == v.target.Number:
		return condition.True, string(v.target.Why), describe(v)
	case v.target.Number != 0 && v.target.Why != revision.Latest && v.step.Next.Serving != 0 && !v.kind.Ready && !v.kind.Unknown:
		return condition.False, kindNotReady, fmt.Sprintf("revision %d, which %s asks for, can't serve while the kind isn't ready for it: see KindReady", v.target.Number, v.target.Asked) + servesOn(v)
	case v.target.Number != 0:
		return condition.True, string(v.target.Why), fmt.Sprintf("revision %d compiled; it serves when the kind is ready", v.target.Number) + servesOn(v)
	}
	return condition.Unknown, awaiting, awaited(v1alpha1.DefinitionRevisionsResolved)
}

// servesOn says what serves instead of what is asked for.
func servesOn(v *visit) string {
	if n := v.step.Next.Serving; n != 0 {
		return fmt.Sprintf("; revision %d serves on", n)
	}
	return ""
}

// tellEvery is how often the counts of a rollout are told while nothing else changes: each
// telling is a write.
const tellEvery = time.Second

// paced says when to look at the definition again, and leaves the counts of a rollout as
// they were told if that was only just.
func (r *Reconciler) paced(v *visit) time.Duration {
	was, next := v.status.Rollout, v.step.Next.Rollout
	if was == nil || next == nil || !sameButCounts(was, next) {
		v.entry.counted = r.Now()
		return v.step.Again
	}
	if object.Digest(was) == object.Digest(next) {
		return v.step.Again
	}
	if left := v.entry.counted.Add(tellEvery).Sub(r.Now()); left > 0 && left <= tellEvery {
		v.step.Next.Rollout = was
		if v.step.Again == 0 || left < v.step.Again {
			return left
		}
		return v.step.Again
	}
	v.entry.counted = r.Now()
	return v.step.Again
}

func sameButCounts(a, b *v1alpha1.RolloutStatus) bool {
	strip := func(s *v1alpha1.RolloutStatus) v1alpha1.RolloutStatus {
		out := *s.DeepCopy()
		out.Total, out.Updated, out.Ready, out.Pinned, out.Unready = 0, 0, 0, 0, nil
		return out
	}
	return object.Digest(strip(a)) == object.Digest(strip(b))
}

// announce tells what has become of revisions, once that is written, and goes on with what
// was written.
func (r *Reconciler) announce(v *visit) {
	for _, t := range v.step.Told {
		severity := telemetry.Normal
		if t.Warning {
			severity = telemetry.Warning
		}
		r.Events.Event(v.raw, severity, t.Reason, t.Message)
		r.Rollouts.Happened(t.Reason)
	}
	if v.proceeding && moved(v.step.Now, v.step.Next) || moved(revision.StateOf(v.status), v.step.Next) {
		r.wake(v.key) // for what is composed by it, and for revisions that are out of use now
	}
}

// moved says whether other instances are composed by another revision in the one state than
// in the other.
func moved(a, b revision.State) bool {
	mark := func(s revision.State) string {
		if s.Rolling() == 0 {
			return object.Digest(s.Serving)
		}
		return object.Digest([]any{s.Serving, s.Rollout.Revision, s.Rollout.Wave, s.Rollout.Begun})
	}
	return mark(a) != mark(b)
}
