package revision

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
)

// Member is an instance as a rollout counts it.
type Member struct {
	Namespace, Name string
	Labels          labels.Set
	// Pinned says that the instance requests a revision itself.
	Pinned bool
	// Deleting says that it is being deleted.
	Deleting bool
	// Revision is the one that last composed it; 0 if that isn't known.
	Revision int64
	// Ready reports whether it was ready then; Reason and Message say why not.
	Ready           bool
	Reason, Message string
}

// updating is the reason of an instance that is not reconciled at the revision yet.
const updating = "Updating"

// IsUnobserved says that the instance takes part in rollouts and has not been reconciled yet by this process.
func (m Member) IsUnobserved() bool { return m.participates() && m.Revision == 0 }

func (m Member) participates() bool { return !m.Pinned && !m.Deleting }

// Transition is a change that is recorded as an event.
type Transition struct {
	Warning         bool
	Reason, Message string
}

// Reasons of transitions.
const (
	RolloutStarted  = "RolloutStarted"
	RolloutWave     = "RolloutWave"
	RolloutChanged  = "RolloutChanged"
	RolloutStopped  = "RolloutStopped"
	RolloutResumed  = "RolloutResumed"
	RolloutComplete = "RolloutComplete"
	RolloutEnded    = "RolloutEnded"
)

// Limits of the status, and the default deadline of a wave.
const (
	maxUnready       = 10
	maxReasonLength  = 64
	maxMessageLength = 256
	defaultDeadline  = 10 * time.Minute
)

// Written is the status that was written last, which the members are composed by; if it is nil, the rollout starts. The
// returned status must be written before any instance is composed by it: a wave that started and was forgotten would be
// reverted. RequeueAfter is after how long to call it again without an event.
func (w Waves) advance(written *v1alpha1.RolloutStatus, revision int64, members []Member, now time.Time) (status *v1alpha1.RolloutStatus,
	transitions []Transition, requeueAfter time.Duration) {
	if written == nil {
		status = &v1alpha1.RolloutStatus{Revision: revision, Phase: v1alpha1.RolloutProgressing, StartedAt: statusTime(now)}
		transitions = append(transitions, Transition{Reason: RolloutStarted, Message: fmt.Sprintf("revision %d is rolled out in %d waves", revision, len(w.steps))})
	} else {
		status = written.DeepCopy()
		dropRedundantBounds(status)
	}
	status.Waves = int32(len(w.steps))
	phaseBefore, empty := status.Phase, false
	if w.startedWavesChanged(status) {
		restartWaves(status)
		status.Phase = v1alpha1.RolloutProgressing
		transitions = append(transitions, Transition{Reason: RolloutChanged,
			Message: fmt.Sprintf("revision %d: the waves changed and start again; updated instances keep the revision", revision)})
	}
	for {
		unready := countMembers(status, members)
		if len(unready) > w.maxUnavailable(status) {
			requeueAfter = w.awaitWave(status, unready, now)
			break
		}
		if status.Phase == v1alpha1.RolloutStopped {
			transitions = append(transitions, Transition{Reason: RolloutResumed,
				Message: fmt.Sprintf("revision %d: its instances are ready; the rollout continues", revision)})
		}
		if status.WaveReadyAt == nil {
			since := statusTime(now)
			status.WaveReadyAt = &since
		}
		if status.Wave == status.Waves {
			w.complete(status, now)
			break
		}
		if requeueAfter = w.pauseRemaining(status, empty, now); requeueAfter > 0 || status.Phase == v1alpha1.RolloutPaused {
			break
		}
		w.startNextWave(status, members, now)
		if empty = !reachesOthers(status, members); !empty {
			transitions = append(transitions, Transition{Reason: RolloutWave, Message: fmt.Sprintf("revision %d: %s begins", revision, w.describe(status.Wave))})
			countMembers(status, members)
			status.Message = fmt.Sprintf("%s has begun", w.describe(status.Wave))
			break // what it reaches is composed once this is written
		}
	}
	return status, append(transitions, phaseTransitions(phaseBefore, status)...), requeueAfter
}

// CountInterval is the minimum time between two counts of so many instances. Each changed
// instance requests a count, and many instances would keep a worker busy.
func CountInterval(members int) time.Duration {
	if members < 500 {
		return 0
	}
	return time.Duration(members) * time.Millisecond / 10
}

func (w Waves) startNextWave(status *v1alpha1.RolloutStatus, members []Member, now time.Time) {
	since := statusTime(now)
	status.Phase, status.WaveStartedAt, status.WaveReadyAt = v1alpha1.RolloutProgressing, &since, nil
	next := w.steps[status.Wave]
	status.Begun = append(status.Begun, v1alpha1.BegunWave{Percent: next.Percent, Selector: next.Selector.DeepCopy(), Below: next.computeBound(members)})
	status.Wave++
}

// The wave has just started. One that reaches no further instances isn't waited for. Former waves don't count: a user
// who lowers a percentage doesn't mean to skip the pause after it.
func reachesOthers(status *v1alpha1.RolloutStatus, members []Member) bool {
	last := len(status.Begun) - 1
	now := reachedFunc(status.Begun[last:])
	before := reachedFunc(slices.DeleteFunc(slices.Clone(status.Begun[:last]), func(b v1alpha1.BegunWave) bool { return b.Former }))
	return slices.ContainsFunc(members, func(m Member) bool {
		return m.participates() && now(m.Namespace, m.Name, m.Labels) && !before(m.Namespace, m.Name, m.Labels)
	})
}

// It returns, sorted, the reached members that the wave waits for: they aren't ready, or not known to be ready still.
func countMembers(status *v1alpha1.RolloutStatus, members []Member) []v1alpha1.UnreadyInstance {
	status.Total, status.Updated, status.Ready, status.Pinned = 0, 0, 0, 0
	var unready []v1alpha1.UnreadyInstance
	reached := reachedFunc(status.Begun)
	for _, m := range members {
		switch {
		case m.Deleting:
			continue
		case m.Pinned:
			status.Pinned++
			continue
		}
		status.Total++
		if !reached(m.Namespace, m.Name, m.Labels) {
			continue
		}
		switch {
		case m.Revision != status.Revision:
			unready = append(unready, v1alpha1.UnreadyInstance{Namespace: m.Namespace, Name: m.Name, Reason: updating,
				Message: fmt.Sprintf("not reconciled at revision %d yet", status.Revision)})
		case !m.Ready:
			status.Updated++
			unready = append(unready, v1alpha1.UnreadyInstance{Namespace: m.Namespace, Name: m.Name, Reason: diag.Truncate(m.Reason, maxReasonLength),
				Message: diag.Truncate(m.Message, maxMessageLength)})
		default:
			status.Updated++
			status.Ready++
		}
	}
	slices.SortFunc(unready, func(a, b v1alpha1.UnreadyInstance) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	status.Unready = unready[:min(len(unready), maxUnready)]
	return unready
}

func (w Waves) maxUnavailable(status *v1alpha1.RolloutStatus) int {
	if w.rollout.MaxUnavailable == nil {
		return 0
	}
	n, err := scaled(w.rollout.MaxUnavailable, status.Total)
	if err != nil {
		return 0
	}
	return n
}

// The number is fixed, or a percentage of a total, rounded down.
func scaled(of *intstr.IntOrString, total int64) (int, error) {
	n := int64(of.IntVal)
	if of.Type == intstr.String {
		text, isPercent := strings.CutSuffix(of.StrVal, "%")
		percent, err := strconv.ParseInt(text, 10, 32)
		if !isPercent || err != nil || percent > 100 {
			return 0, fmt.Errorf("must be a number or a percentage such as 25%%, not %q", diag.Truncate(of.StrVal, 32))
		}
		n = total * percent / 100
	}
	if n < 0 {
		return 0, fmt.Errorf("must not be negative")
	}
	return int(min(n, math.MaxInt32)), nil
}

// It stops the rollout after the deadline. It returns how long is left until then.
func (w Waves) awaitWave(status *v1alpha1.RolloutStatus, unready []v1alpha1.UnreadyInstance, now time.Time) time.Duration {
	status.WaveReadyAt = nil
	if status.WaveStartedAt == nil {
		since := statusTime(now)
		status.WaveStartedAt = &since
	}
	deadline := defaultDeadline
	if d := w.rollout.ProgressDeadline; d != nil {
		deadline = d.Duration
	}
	left := status.WaveStartedAt.Add(deadline).Sub(now)
	if status.Phase == v1alpha1.RolloutStopped || left <= 0 {
		status.Phase = v1alpha1.RolloutStopped
		status.Message = fmt.Sprintf("%s is not ready within %s: %s. The rollout continues once they are ready; 'espalier rollback' or the next revision ends it", w.describe(status.Wave), deadline, describeUnready(unready))
		return 0
	}
	status.Phase = v1alpha1.RolloutProgressing
	status.Message = fmt.Sprintf("%s: waiting for its instances to become ready", w.describe(status.Wave))
	return left
}

// pauseRemaining returns for how long the next wave has to wait; after an empty wave it doesn't
// wait. A paused rollout waits without limit: its phase says so.
func (w Waves) pauseRemaining(status *v1alpha1.RolloutStatus, empty bool, now time.Time) time.Duration {
	if w.rollout.Paused {
		status.Phase, status.Message = v1alpha1.RolloutPaused, fmt.Sprintf("%s is ready; the next one waits while %s is true",
			w.describe(status.Wave), w.at.Field("paused"))
		if status.Wave == 0 {
			status.Message = fmt.Sprintf("the first wave waits while %s is true", w.at.Field("paused"))
		}
		return 0
	}
	if status.Phase == v1alpha1.RolloutPaused {
		status.Phase = v1alpha1.RolloutProgressing
	}
	if status.Wave == 0 || empty || w.steps[status.Wave-1].Pause == nil {
		return 0
	}
	until := status.WaveReadyAt.Add(w.steps[status.Wave-1].Pause.Duration)
	if !now.Before(until) {
		return 0
	}
	status.Phase, status.Message = v1alpha1.RolloutPausing, fmt.Sprintf("%s is ready; the next one begins at %s", w.describe(status.Wave),
		until.UTC().Format(time.RFC3339))
	return until.Sub(now)
}

func (w Waves) complete(status *v1alpha1.RolloutStatus, now time.Time) {
	when := statusTime(now)
	status.Phase, status.CompletedAt, status.Message = v1alpha1.RolloutComplete, &when, "all waves are complete"
	status.Begun, status.WaveStartedAt, status.WaveReadyAt = nil, nil, nil
}

func phaseTransitions(before v1alpha1.RolloutPhase, status *v1alpha1.RolloutStatus) []Transition {
	switch {
	case status.Phase == before:
		return nil
	case status.Phase == v1alpha1.RolloutStopped:
		return []Transition{{Warning: true, Reason: RolloutStopped, Message: fmt.Sprintf("revision %d: %s", status.Revision, status.Message)}}
	case status.Phase == v1alpha1.RolloutComplete:
		return []Transition{{Reason: RolloutComplete, Message: fmt.Sprintf("revision %d: %s", status.Revision, status.Message)}}
	}
	return nil
}

func describeUnready(unready []v1alpha1.UnreadyInstance) string {
	const maxNamed = 3
	var texts []string
	for _, u := range unready[:min(len(unready), maxNamed)] {
		name := u.Name
		if u.Namespace != "" {
			name = u.Namespace + "/" + name
		}
		texts = append(texts, fmt.Sprintf("%s (%s)", name, u.Reason))
	}
	if more := len(unready) - maxNamed; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, ", ")
}

// It has the precision of a status.
func statusTime(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }
