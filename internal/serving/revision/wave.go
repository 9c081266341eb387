package revision

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// hashSpace is the number of hash positions.
const hashSpace = int64(1) << 32

// hashPosition is the position of an instance below hashSpace. It is a hash of the instance's
// name, not of its UID: an instance that is recreated or restored from a backup stays in its
// wave, and nothing has to be recorded for it.
func hashPosition(namespace, name string) int64 {
	h := fnv.New64a()
	h.Write([]byte(namespace + "/" + name))
	sum := h.Sum64()
	sum ^= sum >> 32 // names that differ at their end differ little in the upper half
	sum *= 0x9e3779b97f4a7c15
	return int64(sum >> 32)
}

// Waves are the waves of a definition's rollout, validated. The zero Waves update all instances
// at once.
type Waves struct {
	rollout *v1alpha1.Rollout
	// at is where users write the rollout.
	at    object.Path
	steps []step
}

// step is one wave: a percentage of the instances that the selector matches.
type step struct {
	selector labels.Selector
	percent  int64
	v1alpha1.Wave
}

func (s step) reachesAll() bool { return s.percent == 100 && s.selector.Empty() }

// WavesOf reads a definition's rollout, and returns the problems of an invalid one. A last wave
// is added if the waves don't include all instances.
func WavesOf(spec *v1alpha1.DefinitionSpec) (Waves, diag.List) {
	if spec.Rollout == nil {
		return Waves{}, nil
	}
	return ReadWaves(spec.Rollout, "spec.rollout")
}

// ReadWaves is WavesOf for a rollout that is written at a path.
func ReadWaves(rollout *v1alpha1.Rollout, at object.Path) (Waves, diag.List) {
	var problems diag.List
	out, percentBefore := Waves{rollout: rollout, at: at}, int64(0)
	for i, w := range rollout.Waves {
		s, invalid := stepOf(w, at.Field("waves").Index(i), percentBefore)
		problems = append(problems, invalid...)
		if s.selector.Empty() {
			percentBefore = s.percent
		}
		out.steps = append(out.steps, s)
	}
	if u := rollout.MaxUnavailable; u != nil {
		if _, err := scaled(u, 100); err != nil {
			problems.Addf(at.Field("maxUnavailable"), "%v", err)
		}
	}
	if d := rollout.ProgressDeadline; d != nil && d.Duration <= 0 {
		problems.Addf(at.Field("progressDeadline"), "must be positive")
	}
	if len(problems) > 0 {
		return Waves{}, problems.Sorted()
	}
	if n := len(out.steps); n > 0 && !out.steps[n-1].reachesAll() {
		out.steps = append(out.steps, step{selector: labels.Everything(), percent: 100})
	}
	return out, nil
}

// Waves without a selector include the ones before; the last of these has the given percentage.
func stepOf(w v1alpha1.Wave, at object.Path, percentBefore int64) (s step, problems diag.List) {
	s = step{selector: labels.Everything(), percent: 100, Wave: w}
	if w.Percent == nil && w.Selector == nil {
		problems.Addf(at, "requires percent or selector")
	}
	if w.Selector != nil {
		selector, err := metav1.LabelSelectorAsSelector(w.Selector)
		if err != nil {
			problems.Addf(at.Field("selector"), "%v", err)
			selector = labels.Nothing() // its percentage must not count for later waves
		}
		s.selector = selector
	}
	if w.Percent != nil {
		s.percent = min(max(int64(*w.Percent), 0), 100)
	}
	if s.selector.Empty() && s.percent <= percentBefore {
		problems.Addf(at.Field("percent"), "must be more than the %d%% of an earlier wave: percentages include earlier waves", percentBefore)
	}
	if w.Pause != nil && w.Pause.Duration < 0 {
		problems.Addf(at.Field("pause"), "must not be negative")
	}
	return s, problems
}

// Any reports whether there are waves.
func (w Waves) Any() bool { return len(w.steps) > 0 }

// Reached reports whether a rollout has reached an instance: whether one of the started waves includes it. The waves
// count as they were when they started.
func Reached(at *v1alpha1.RolloutStatus, namespace, name string, instance labels.Set) bool {
	return reachedFunc(at.Begun)(namespace, name, instance)
}

func reachedFunc(begun []v1alpha1.BegunWave) func(namespace, name string, instance labels.Set) bool {
	selectors := make([]labels.Selector, len(begun))
	for i, b := range begun {
		selectors[i] = labels.Everything()
		if b.Selector == nil {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(b.Selector)
		if err != nil {
			selector = labels.Nothing()
		}
		selectors[i] = selector
	}
	return func(namespace, name string, instance labels.Set) bool {
		where := hashPosition(namespace, name)
		for i, b := range begun {
			if where < upperBound(b) && selectors[i].Matches(instance) {
				return true
			}
		}
		return false
	}
}

// maxFormerWaves bounds the recorded waves that are no longer in the definition.
const maxFormerWaves = 64

// They aren't the first ones of the definition any more.
func (w Waves) startedWavesChanged(status *v1alpha1.RolloutStatus) bool {
	n := 0
	for _, b := range status.Begun {
		if b.Former {
			continue
		}
		if n >= len(w.steps) || !sameWave(b, w.steps[n].Wave) {
			return true
		}
		n++
	}
	return n != int(status.Wave)
}

func sameWave(b v1alpha1.BegunWave, w v1alpha1.Wave) bool {
	return object.Digest([]any{b.Percent, b.Selector}) == object.Digest([]any{w.Percent, w.Selector})
}

// The started waves are recorded as former ones, so the instances that they reached keep the revision: new waves with
// the same bounds would reach other instances.
func restartWaves(status *v1alpha1.RolloutStatus) {
	var former []v1alpha1.BegunWave
	for _, b := range status.Begun {
		b.Former = true
		at := slices.IndexFunc(former, func(f v1alpha1.BegunWave) bool {
			return object.Digest(f.Selector) == object.Digest(b.Selector)
		})
		if at < 0 {
			former = append(former, b)
		} else if upperBound(former[at]) < upperBound(b) {
			former[at] = b
		}
	}
	status.Begun = former[max(0, len(former)-maxFormerWaves):]
	status.Wave, status.WaveStartedAt, status.WaveReadyAt = 0, nil, nil
}

// The hash positions of a wave's instances are below it.
func upperBound(b v1alpha1.BegunWave) int64 {
	if b.Below == 0 {
		return hashSpace
	}
	return b.Below
}

func dropRedundantBounds(status *v1alpha1.RolloutStatus) {
	for i := range status.Begun {
		if status.Begun[i].Below >= hashSpace {
			status.Begun[i].Below = 0
		}
	}
}

// computeBound is the bound of a wave: the given percentage of the current instances is below it, rounded up, so a
// small wave isn't empty. Without instances it is the percentage of all positions. A wave of all instances has no
// bound: 0.
func (s step) computeBound(members []Member) int64 {
	if s.percent == 100 {
		return 0
	}
	var places []int64
	for _, m := range members {
		if m.participates() && s.selector.Matches(m.Labels) {
			places = append(places, hashPosition(m.Namespace, m.Name))
		}
	}
	if len(places) == 0 {
		return hashSpace * s.percent / 100
	}
	slices.SortFunc(places, cmp.Compare)
	n := (int64(len(places))*s.percent + 99) / 100
	return places[n-1] + 1
}

func (w Waves) describe(n int32) string {
	if n == 0 {
		return "the instances updated before the waves changed"
	}
	return fmt.Sprintf("wave %d of %d", n, len(w.steps))
}
