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

// Member is an instance as a rollout sees it.
type Member struct {
	Namespace, Name string
	Labels          labels.Set
	// Pinned says that the instance asks for a revision itself.
	Pinned bool
	// Deleting says that it is on its way out.
	Deleting bool
	// Revision is the one that it was last seen through by; 0 if that isn't known.
	Revision int64
	// Ready says whether it was ready then, and Reason and Message why not.
	Ready           bool
	Reason, Message string
}

// Unseen says that a rollout is about the instance, and nobody has looked at it since the
// program began.
func (m Member) Unseen() bool { return m.takesPart() && m.Revision == 0 }

func (m Member) takesPart() bool { return !m.Pinned && !m.Deleting }

// Transition is something that people are told of as an event.
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

// Bounds of what is told, and of what is waited for.
const (
	mostUnready     = 10
	longestReason   = 64
	longestText     = 256
	defaultDeadline = 10 * time.Minute
)

// Advance takes a rollout one look further. Was is the state that was written last, by which
// the members are composed; nil, or another revision's, lets the rollout begin. What it
// returns has to be written before anybody is composed by it: a wave that began and was
// forgotten would be taken back. Again is when to look again, events aside.
func (w Waves) Advance(was *v1alpha1.RolloutStatus, revision int64, members []Member, now time.Time) (is *v1alpha1.RolloutStatus, told []Transition, again time.Duration) {
	if was == nil || was.Revision != revision || was.Phase == v1alpha1.RolloutComplete {
		is = &v1alpha1.RolloutStatus{Revision: revision, Phase: v1alpha1.RolloutProgressing, StartedAt: at(now)}
		told = append(told, Transition{Reason: RolloutStarted, Message: fmt.Sprintf("revision %d is rolled out in %d waves", revision, len(w.steps))})
	} else {
		is = was.DeepCopy()
		unbound(is)
	}
	is.Waves = int32(len(w.steps))
	before, empty := is.Phase, false
	if w.astray(is) {
		restart(is)
		is.Phase, before = v1alpha1.RolloutProgressing, v1alpha1.RolloutProgressing
		told = append(told, Transition{Reason: RolloutChanged, Message: fmt.Sprintf("revision %d: the waves have been changed and begin anew; whom it has reached it has", revision)})
	}
	for {
		unready := count(is, members)
		if len(unready) > w.tolerated(is) {
			again = w.wait(is, unready, now)
			break
		}
		if is.Phase == v1alpha1.RolloutStopped {
			is.Phase, before = v1alpha1.RolloutProgressing, v1alpha1.RolloutProgressing
			told = append(told, Transition{Reason: RolloutResumed, Message: fmt.Sprintf("revision %d: its instances are ready, and the rollout goes on", revision)})
		}
		if is.WaveReadyAt == nil {
			since := at(now)
			is.WaveReadyAt = &since
		}
		if is.Wave == is.Waves {
			w.complete(is, now)
			break
		}
		if again = w.pausing(is, empty, now); again > 0 || is.Phase == v1alpha1.RolloutPaused {
			break
		}
		w.begin(is, members, now)
		if empty = !fresh(is, members); !empty {
			told = append(told, Transition{Reason: RolloutWave, Message: fmt.Sprintf("revision %d: %s begins", revision, w.describe(is.Wave))})
			count(is, members)
			is.Message = fmt.Sprintf("%s has begun", w.describe(is.Wave))
			break // what it reaches is composed once this is written
		}
	}
	return is, append(told, changed(before, is)...), again
}

// begin lets the next wave begin.
func (w Waves) begin(is *v1alpha1.RolloutStatus, members []Member, now time.Time) {
	since := at(now)
	is.Phase, is.WaveStartedAt, is.WaveReadyAt = v1alpha1.RolloutProgressing, &since, nil
	next := w.steps[is.Wave]
	is.Begun = append(is.Begun, v1alpha1.BegunWave{Percent: next.Percent, Selector: next.Selector.DeepCopy(), Below: next.partition(members)})
	is.Wave++
}

// fresh says whether the wave that has just begun reaches anybody whom the ones before it
// don't. One that doesn't isn't waited for. Former waves don't count: whoever lowers a
// percentage doesn't mean the pause after it to be left out.
func fresh(is *v1alpha1.RolloutStatus, members []Member) bool {
	last := len(is.Begun) - 1
	now := reaching(is.Begun[last:])
	before := reaching(slices.DeleteFunc(slices.Clone(is.Begun[:last]), func(b v1alpha1.BegunWave) bool { return b.Former }))
	return slices.ContainsFunc(members, func(m Member) bool {
		return m.takesPart() && now(m.Namespace, m.Name, m.Labels) && !before(m.Namespace, m.Name, m.Labels)
	})
}

// count counts the members, and returns those that were reached and aren't ready, sorted.
func count(is *v1alpha1.RolloutStatus, members []Member) []v1alpha1.UnreadyInstance {
	is.Total, is.Updated, is.Ready, is.Pinned = 0, 0, 0, 0
	var unready []v1alpha1.UnreadyInstance
	reached := reaching(is.Begun)
	for _, m := range members {
		switch {
		case m.Deleting:
			continue
		case m.Pinned:
			is.Pinned++
			continue
		}
		is.Total++
		if !reached(m.Namespace, m.Name, m.Labels) {
			continue
		}
		switch {
		case m.Revision != is.Revision:
			unready = append(unready, v1alpha1.UnreadyInstance{Namespace: m.Namespace, Name: m.Name, Reason: "Updating", Message: fmt.Sprintf("revision %d has not been seen through for it yet", is.Revision)})
		case !m.Ready:
			is.Updated++
			unready = append(unready, v1alpha1.UnreadyInstance{Namespace: m.Namespace, Name: m.Name, Reason: diag.Cut(m.Reason, longestReason), Message: diag.Cut(m.Message, longestText)})
		default:
			is.Updated++
			is.Ready++
		}
	}
	slices.SortFunc(unready, func(a, b v1alpha1.UnreadyInstance) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	is.Unready = unready[:min(len(unready), mostUnready)]
	return unready
}

// tolerated is how many may be unready while the rollout goes on.
func (w Waves) tolerated(is *v1alpha1.RolloutStatus) int {
	if w.rollout.MaxUnavailable == nil {
		return 0
	}
	n, err := scaled(w.rollout.MaxUnavailable, is.Total)
	if err != nil {
		return 0
	}
	return n
}

// scaled is a number, or a percentage of a total, rounded down.
func scaled(of *intstr.IntOrString, total int64) (int, error) {
	n := int64(of.IntVal)
	if of.Type == intstr.String {
		text, isPercent := strings.CutSuffix(of.StrVal, "%")
		percent, err := strconv.ParseInt(text, 10, 32)
		if !isPercent || err != nil || percent > 100 {
			return 0, fmt.Errorf("is a number or a percentage, such as 25%%, not %q", diag.Cut(of.StrVal, 32))
		}
		n = total * percent / 100
	}
	if n < 0 {
		return 0, fmt.Errorf("can't be negative")
	}
	return int(min(n, math.MaxInt32)), nil
}

// wait tells that the wave isn't ready, and whether it has had time enough.
func (w Waves) wait(is *v1alpha1.RolloutStatus, unready []v1alpha1.UnreadyInstance, now time.Time) time.Duration {
	is.WaveReadyAt = nil
	if is.WaveStartedAt == nil {
		since := at(now)
		is.WaveStartedAt = &since
	}
	deadline := defaultDeadline
	if d := w.rollout.ProgressDeadline; d != nil {
		deadline = d.Duration
	}
	left := is.WaveStartedAt.Add(deadline).Sub(now)
	if is.Phase == v1alpha1.RolloutStopped || left <= 0 {
		is.Phase = v1alpha1.RolloutStopped
		is.Message = fmt.Sprintf("%s isn't ready within %s: %s. It goes on by itself when they are; 'espalier rollback' ends it, and so does a change of the definition", w.describe(is.Wave), deadline, tell(unready))
		return 0
	}
	is.Phase = v1alpha1.RolloutProgressing
	is.Message = fmt.Sprintf("%s: waiting for its instances to become ready", w.describe(is.Wave))
	return left
}

// pausing says whether the next wave has to wait, and for how long yet; after one that is
// empty it doesn't.
func (w Waves) pausing(is *v1alpha1.RolloutStatus, empty bool, now time.Time) time.Duration {
	if w.rollout.Paused {
		is.Phase, is.Message = v1alpha1.RolloutPaused, fmt.Sprintf("%s is ready; the next one waits for spec.rollout.paused to be taken off", w.describe(is.Wave))
		if is.Wave == 0 {
			is.Message = "the first wave waits for spec.rollout.paused to be taken off"
		}
		return 0
	}
	if is.Phase == v1alpha1.RolloutPaused {
		is.Phase = v1alpha1.RolloutProgressing
	}
	if is.Wave == 0 || empty || w.steps[is.Wave-1].Pause == nil {
		return 0
	}
	until := is.WaveReadyAt.Add(w.steps[is.Wave-1].Pause.Duration)
	if !now.Before(until) {
		return 0
	}
	is.Phase, is.Message = v1alpha1.RolloutPausing, fmt.Sprintf("%s is ready; the next one begins at %s", w.describe(is.Wave), until.UTC().Format(time.RFC3339))
	return until.Sub(now)
}

func (w Waves) complete(is *v1alpha1.RolloutStatus, now time.Time) {
	when := at(now)
	is.Phase, is.CompletedAt, is.Message = v1alpha1.RolloutComplete, &when, "all instances have been reached"
	is.Begun, is.WaveStartedAt, is.WaveReadyAt = nil, nil, nil
}

// changed are the transitions between two phases.
func changed(before v1alpha1.RolloutPhase, is *v1alpha1.RolloutStatus) []Transition {
	switch {
	case is.Phase == before:
		return nil
	case is.Phase == v1alpha1.RolloutStopped:
		return []Transition{{Warning: true, Reason: RolloutStopped, Message: fmt.Sprintf("revision %d: %s", is.Revision, is.Message)}}
	case is.Phase == v1alpha1.RolloutComplete:
		return []Transition{{Reason: RolloutComplete, Message: fmt.Sprintf("revision %d: %s", is.Revision, is.Message)}}
	}
	return nil
}

// tell names the first of those who aren't ready.
func tell(unready []v1alpha1.UnreadyInstance) string {
	const most = 3
	var texts []string
	for _, u := range unready[:min(len(unready), most)] {
		name := u.Name
		if u.Namespace != "" {
			name = u.Namespace + "/" + name
		}
		texts = append(texts, fmt.Sprintf("%s (%s)", name, u.Reason))
	}
	if more := len(unready) - most; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, ", ")
}

// at is a time as a status holds it.
func at(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }
