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

// everybody is a bound that all places are below.
const everybody = int64(1) << 32

// place is where an instance stands among all: below everybody. It follows from the
// instance's name, not from its UID: one that is recreated, or restored from a backup,
// belongs to the wave that it belonged to, and nothing has to be written for it.
func place(namespace, name string) int64 {
	h := fnv.New64a()
	h.Write([]byte(namespace + "/" + name))
	sum := h.Sum64()
	sum ^= sum >> 32 // names that differ at their end differ little in the upper half
	sum *= 0x9e3779b97f4a7c15
	return int64(sum >> 32)
}

// Waves are a definition's rollout, ready to be asked. The zero Waves reach all at once.
type Waves struct {
	rollout *v1alpha1.Rollout
	steps   []step
}

// step is one wave: those whom it selects, as many percent of them.
type step struct {
	selector labels.Selector
	percent  int64
	v1alpha1.Wave
}

// all says whether the wave leaves nobody out.
func (s step) all() bool { return s.percent == 100 && s.selector.Empty() }

// WavesOf reads a definition's rollout, with all that makes no sense in it. What the waves
// leave out is a last one.
func WavesOf(spec *v1alpha1.DefinitionSpec) (Waves, diag.List) {
	rollout := spec.Rollout
	if rollout == nil {
		return Waves{}, nil
	}
	const at = object.Path("spec.rollout")
	var problems diag.List
	out, most := Waves{rollout: rollout}, int64(0)
	for i, w := range rollout.Waves {
		here := at.Field("waves").Index(i)
		s := step{selector: labels.Everything(), percent: 100, Wave: w}
		if w.Percent == nil && w.Selector == nil {
			problems.Addf(here, "a wave needs percent or selector")
		}
		if w.Selector != nil {
			selector, err := metav1.LabelSelectorAsSelector(w.Selector)
			if err != nil {
				problems.Addf(here.Field("selector"), "%v", err)
				continue
			}
			s.selector = selector
		}
		if w.Percent != nil {
			s.percent = min(max(int64(*w.Percent), 0), 100)
		}
		if s.selector.Empty() {
			if s.percent <= most {
				problems.Addf(here.Field("percent"), "an earlier wave has reached %d%% already; percentages include earlier waves, so they have to grow", most)
			}
			most = s.percent
		}
		if w.Pause != nil && w.Pause.Duration < 0 {
			problems.Addf(here.Field("pause"), "can't be negative")
		}
		out.steps = append(out.steps, s)
	}
	if u := rollout.MaxUnavailable; u != nil {
		if _, err := scaled(u, 100); err != nil {
			problems.Addf(at.Field("maxUnavailable"), "%v", err)
		}
	}
	if d := rollout.ProgressDeadline; d != nil && d.Duration <= 0 {
		problems.Addf(at.Field("progressDeadline"), "has to be longer than nothing")
	}
	if len(problems) > 0 {
		return Waves{}, problems.Sorted()
	}
	if n := len(out.steps); n > 0 && !out.steps[n-1].all() {
		out.steps = append(out.steps, step{selector: labels.Everything(), percent: 100})
	}
	return out, nil
}

// Any says whether there are waves.
func (w Waves) Any() bool { return len(w.steps) > 0 }

// Reached says whether a rollout has reached an instance: whether one of the waves that have
// begun is its own. It asks for the waves as they were when they began.
func Reached(at *v1alpha1.RolloutStatus, namespace, name string, instance labels.Set) bool {
	return reaching(at.Begun)(namespace, name, instance)
}

// reaching is Reached for many instances.
func reaching(begun []v1alpha1.BegunWave) func(namespace, name string, instance labels.Set) bool {
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
		where := place(namespace, name)
		for i, b := range begun {
			if where < bound(b) && selectors[i].Matches(instance) {
				return true
			}
		}
		return false
	}
}

// mostFormer bounds the waves that are remembered though the definition hasn't them any more.
const mostFormer = 64

// astray says whether waves have begun that aren't the first of these.
func (w Waves) astray(is *v1alpha1.RolloutStatus) bool {
	n := 0
	for _, b := range is.Begun {
		if b.Former {
			continue
		}
		if n >= len(w.steps) || !sameWave(b, w.steps[n].Wave) {
			return true
		}
		n++
	}
	return n != int(is.Wave)
}

func sameWave(b v1alpha1.BegunWave, w v1alpha1.Wave) bool {
	return object.Digest([]any{b.Percent, b.Selector}) == object.Digest([]any{w.Percent, w.Selector})
}

// restart lets the waves begin anew. Whoever was reached by others stays so: taken at their
// word, other waves with the same bounds would reach whom they aren't meant for.
func restart(is *v1alpha1.RolloutStatus) {
	var former []v1alpha1.BegunWave
	for _, b := range is.Begun {
		b.Former = true
		at := slices.IndexFunc(former, func(f v1alpha1.BegunWave) bool {
			return object.Digest(f.Selector) == object.Digest(b.Selector)
		})
		if at < 0 {
			former = append(former, b)
		} else if bound(former[at]) < bound(b) {
			former[at] = b
		}
	}
	is.Begun = former[max(0, len(former)-mostFormer):]
	is.Wave, is.WaveStartedAt, is.WaveReadyAt = 0, nil, nil
}

// bound is what the places of a wave's instances are below.
func bound(b v1alpha1.BegunWave) int64 {
	if b.Below == 0 {
		return everybody
	}
	return b.Below
}

// unbound leaves out bounds that all places are below: a number that says nothing.
func unbound(is *v1alpha1.RolloutStatus) {
	for i := range is.Begun {
		if is.Begun[i].Below >= everybody {
			is.Begun[i].Below = 0
		}
	}
}

// partition is the bound of a wave, given whom there is: as many as it says are below it,
// rounded up, so that a wave of few isn't empty. Where there is nobody yet, the bound is
// where they may be expected. A wave of all has none.
func (s step) partition(members []Member) int64 {
	if s.percent == 100 {
		return 0
	}
	var places []int64
	for _, m := range members {
		if m.takesPart() && s.selector.Matches(m.Labels) {
			places = append(places, place(m.Namespace, m.Name))
		}
	}
	if len(places) == 0 {
		return everybody * s.percent / 100
	}
	slices.SortFunc(places, cmp.Compare)
	n := (int64(len(places))*s.percent + 99) / 100
	return places[n-1] + 1
}

// describe names a wave to people.
func (w Waves) describe(n int32) string {
	if n == 0 {
		return "what was reached before the waves were changed"
	}
	return fmt.Sprintf("wave %d of %d", n, len(w.steps))
}
