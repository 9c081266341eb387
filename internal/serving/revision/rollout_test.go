package revision_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/serving/revision"
)

var noon = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

func percent(n int32) v1alpha1.Wave { return v1alpha1.Wave{Percent: &n} }

func labelled(key string) v1alpha1.Wave {
	return v1alpha1.Wave{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{key: "yes"}}}
}

func pausing(w v1alpha1.Wave, d time.Duration) v1alpha1.Wave {
	w.Pause = &metav1.Duration{Duration: d}
	return w
}

// fleet is a world of instances that take on whatever composes them.
type fleet struct {
	t       testing.TB
	waves   revision.Waves
	members []revision.Member
	state   revision.State
	now     time.Time
	// broken are those that don't become ready by these revisions.
	broken map[string]int64
	story  []string
}

func newFleet(t testing.TB, n int, rollout v1alpha1.Rollout) *fleet {
	t.Helper()
	waves, problems := revision.WavesOf(&v1alpha1.DefinitionSpec{Rollout: &rollout})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	f := &fleet{t: t, waves: waves, state: revision.State{Serving: 1}, now: noon, broken: map[string]int64{}}
	for i := range n {
		f.members = append(f.members, revision.Member{Namespace: "ns", Name: fmt.Sprintf("box-%02d", i), Labels: labels.Set{}, Revision: 1, Ready: true})
	}
	return f
}

// look is one reconcile: the written state composes the instances, and the next state is
// written.
func (f *fleet) look(target revision.Target) (again time.Duration) {
	step := f.state.StepTo(target, f.waves, func() []revision.Member { return f.members }, f.now)
	for _, told := range step.Transitions {
		f.story = append(f.story, told.Reason)
	}
	f.state = step.Next
	f.compose()
	return step.RequeueAfter
}

func (f *fleet) compose() {
	for i := range f.members {
		m := &f.members[i]
		if m.Pinned {
			continue
		}
		m.Revision = f.state.For(m.Namespace, m.Name, m.Labels)
		m.Ready = f.broken[m.Name] != m.Revision
		if !m.Ready {
			m.Reason = "NotReady"
		}
	}
}

// settle reconciles until nothing changes, and returns when to reconcile again.
func (f *fleet) settle(target revision.Target) (again time.Duration) {
	f.t.Helper()
	for range 100 {
		before := f.state
		if again = f.look(target); cmp.Equal(before, f.state) {
			return again
		}
	}
	f.t.Fatal("never comes to rest")
	return 0
}

func (f *fleet) have(number int64) (n int) {
	for _, m := range f.members {
		if m.Revision == number {
			n++
		}
	}
	return n
}

var two = revision.Target{Number: 2, Reason: revision.Latest}

// TestInstancesAreComposedByTheWrittenState moves any state toward any target: until the next state is
// written, which may fail, the written one composes the instances.
func TestInstancesAreComposedByTheWrittenState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var waves []v1alpha1.Wave
		if rapid.Bool().Draw(t, "waves") {
			waves = []v1alpha1.Wave{pausing(percent(50), time.Hour)}
		}
		w, problems := revision.WavesOf(&v1alpha1.DefinitionSpec{Rollout: &v1alpha1.Rollout{Waves: waves}})
		if err := problems.Err(); err != nil {
			t.Fatal(err)
		}
		number := rapid.Int64Range(1, 3)
		members := func() []revision.Member {
			return []revision.Member{{Name: "a", Labels: labels.Set{}}, {Name: "b", Labels: labels.Set{}}}
		}
		written := revision.State{Serving: number.Draw(t, "serving")}
		for range 5 {
			target := revision.Target{Number: number.Draw(t, "target"), Reason: rapid.SampledFrom([]revision.Reason{revision.Latest, revision.RolledBack}).Draw(t, "reason")}
			step := written.StepTo(target, w, members, noon)
			if diff := cmp.Diff(written, step.Now); diff != "" {
				t.Fatalf("instances are composed otherwise than written: %s", diff)
			}
			if rapid.Bool().Draw(t, "is written") {
				written = step.Next
			}
		}
	})
}

func TestARolloutGoesWaveByWave(t *testing.T) {
	f := newFleet(t, 10, v1alpha1.Rollout{Waves: []v1alpha1.Wave{labelled("canary"), pausing(percent(30), time.Hour), percent(50)}})
	f.members[7].Labels = labels.Set{"canary": "yes"}
	f.members[3].Pinned = true
	f.broken["box-07"] = 2

	f.look(two)
	if f.have(2) != 1 || f.members[7].Revision != 2 {
		t.Fatalf("the first wave is one canary, not %d", f.have(2))
	}
	if again := f.settle(two); again != 10*time.Minute || f.state.Rollout.Phase != v1alpha1.RolloutProgressing {
		t.Fatalf("it waits for as long as a wave may take, not %s: %+v", again, f.state.Rollout)
	}
	f.now = f.now.Add(10 * time.Minute)
	f.settle(two)
	if r := f.state.Rollout; r.Phase != v1alpha1.RolloutStopped || !strings.Contains(r.Message, "ns/box-07 (NotReady)") || f.have(2) != 1 {
		t.Fatalf("it stops at the canary: %+v", r)
	}

	delete(f.broken, "box-07")
	f.compose()
	if again := f.settle(two); again != time.Hour || f.state.Rollout.Phase != v1alpha1.RolloutPausing || f.state.Rollout.Wave != 2 {
		t.Fatalf("it goes on by itself, and pauses after the second wave: %s, %+v", again, f.state.Rollout)
	}
	if n := f.have(2); n < 3 || n > 4 {
		t.Fatalf("30%% of nine are three, and the canary may be one of them: %d", n)
	}
	f.now = f.now.Add(time.Hour)
	f.settle(two)
	if r := f.state.Rollout; f.state.Serving != 2 || r.Phase != v1alpha1.RolloutComplete || r.Total != 9 || r.Updated != 9 || r.Ready != 9 || r.Pinned != 1 || f.members[3].Revision != 1 {
		t.Fatalf("it ends with all but who is pinned: %+v", r)
	}
	want := []string{"RolloutStarted", "RolloutWave", "RolloutStopped", "RolloutResumed", "RolloutWave", "RolloutWave", "RolloutWave", "RolloutComplete"}
	if diff := cmp.Diff(want, f.story); diff != "" {
		t.Error(diff)
	}
}

func TestARolloutEndsOrWaits(t *testing.T) {
	rolled := revision.Target{Number: 1, Reason: revision.RolledBack}
	half := intstr.FromString("50%")
	cases := map[string]struct {
		rollout v1alpha1.Rollout
		n       int
		act     func(f *fleet)
		have    int
		phase   v1alpha1.RolloutPhase
		serving int64
	}{
		"Nobody there is nothing to wait for":               {v1alpha1.Rollout{Waves: []v1alpha1.Wave{pausing(percent(10), time.Hour)}}, 0, func(f *fleet) { f.settle(two) }, 0, v1alpha1.RolloutComplete, 2},
		"A wave of few isn't empty":                         {v1alpha1.Rollout{Waves: []v1alpha1.Wave{pausing(percent(1), time.Hour)}}, 5, func(f *fleet) { f.settle(two) }, 1, v1alpha1.RolloutPausing, 1},
		"An empty wave isn't waited for":                    {v1alpha1.Rollout{Waves: []v1alpha1.Wave{pausing(labelled("nobody"), time.Hour), pausing(percent(20), time.Hour)}}, 5, func(f *fleet) { f.settle(two) }, 1, v1alpha1.RolloutPausing, 1},
		"Paused from the beginning, it reaches no instance": {v1alpha1.Rollout{Paused: true, Waves: []v1alpha1.Wave{percent(50)}}, 4, func(f *fleet) { f.settle(two) }, 0, v1alpha1.RolloutPaused, 1},
		"So many may be unready":                            {v1alpha1.Rollout{MaxUnavailable: &half, Waves: []v1alpha1.Wave{percent(50)}}, 4, func(f *fleet) { f.broken["box-00"], f.broken["box-01"] = 2, 2; f.settle(two) }, 4, v1alpha1.RolloutComplete, 2},
		"And no more":                                       {v1alpha1.Rollout{MaxUnavailable: &half, Waves: []v1alpha1.Wave{percent(100)}}, 3, func(f *fleet) { f.broken["box-00"], f.broken["box-01"] = 2, 2; f.settle(two) }, 3, v1alpha1.RolloutProgressing, 1},
		"Who isn't reconciled yet is waited for": {v1alpha1.Rollout{Waves: []v1alpha1.Wave{percent(100)}}, 2, func(f *fleet) {
			f.look(two)
			f.members[0].Revision = 1 // and ready at that
			f.look(two)
		}, 2, v1alpha1.RolloutProgressing, 1},
		"A pause starts again when an instance becomes unready": {v1alpha1.Rollout{Waves: []v1alpha1.Wave{pausing(percent(100), time.Hour), pausing(labelled("canary"), time.Hour)}}, 1, func(f *fleet) {
			f.settle(two)
			f.broken["box-00"] = 2
			f.compose()
			f.settle(two)
			delete(f.broken, "box-00")
			f.now = f.now.Add(5 * time.Minute)
			f.compose()
			f.settle(two)
			f.now = f.now.Add(58 * time.Minute)
			f.settle(two)
		}, 1, v1alpha1.RolloutPausing, 1},
		"A wave of pinned instances isn't waited for": {v1alpha1.Rollout{Waves: []v1alpha1.Wave{pausing(labelled("canary"), time.Hour), pausing(percent(20), time.Hour)}}, 5, func(f *fleet) {
			f.members[0].Pinned, f.members[0].Labels = true, labels.Set{"canary": "yes"}
			f.settle(two)
		}, 1, v1alpha1.RolloutPausing, 1},
		"Nor is one of those that were reached before": {v1alpha1.Rollout{Waves: []v1alpha1.Wave{labelled("canary"), pausing(labelled("early"), time.Hour)}}, 2, func(f *fleet) {
			f.members[0].Labels = labels.Set{"canary": "yes", "early": "yes"}
			f.settle(two)
		}, 2, v1alpha1.RolloutComplete, 2},
		"A percentage is of those that aren't pinned": {v1alpha1.Rollout{Waves: []v1alpha1.Wave{pausing(percent(20), time.Hour)}}, 10, func(f *fleet) {
			for i := range 5 {
				f.members[i].Pinned = true
			}
			f.settle(two)
		}, 1, v1alpha1.RolloutPausing, 1},
		"A rollback takes it back at once":        {v1alpha1.Rollout{Waves: []v1alpha1.Wave{pausing(percent(50), time.Hour)}}, 4, func(f *fleet) { f.settle(two); f.settle(rolled) }, 0, "", 1},
		"A rollback doesn't go in waves":          {v1alpha1.Rollout{Waves: []v1alpha1.Wave{pausing(percent(50), time.Hour)}}, 4, func(f *fleet) { f.state.Serving = 3; f.settle(revision.Target{Number: 2, Reason: revision.RolledBack}) }, 4, "", 2},
		"A newer revision starts another rollout": {v1alpha1.Rollout{Waves: []v1alpha1.Wave{pausing(percent(50), time.Hour)}}, 4, func(f *fleet) { f.settle(two); f.settle(revision.Target{Number: 3, Reason: revision.Latest}) }, 0, v1alpha1.RolloutPausing, 1},
		"Who doesn't become ready in time, stops it": {v1alpha1.Rollout{ProgressDeadline: &metav1.Duration{Duration: time.Minute}, Waves: []v1alpha1.Wave{percent(50)}}, 4, func(f *fleet) {
			f.broken["box-00"], f.broken["box-01"], f.broken["box-02"], f.broken["box-03"] = 2, 2, 2, 2
			f.settle(two)
			f.now = f.now.Add(time.Minute)
			f.settle(two)
		}, 2, v1alpha1.RolloutStopped, 1},
		"It stays stopped when the deadline is extended": {v1alpha1.Rollout{ProgressDeadline: &metav1.Duration{Duration: time.Minute}, Waves: []v1alpha1.Wave{percent(100)}}, 1, func(f *fleet) {
			f.broken["box-00"] = 2
			f.settle(two)
			f.now = f.now.Add(time.Minute)
			f.settle(two)
			f.roll(percent(100)) // with the default deadline
			f.settle(two)
		}, 1, v1alpha1.RolloutStopped, 1},
		"Other waves have their own deadline": {v1alpha1.Rollout{Waves: []v1alpha1.Wave{pausing(percent(50), time.Hour)}}, 1, func(f *fleet) {
			f.broken["box-00"] = 2
			f.settle(two)
			f.now = f.now.Add(10 * time.Minute)
			f.settle(two)
			f.roll(percent(100))
			f.settle(two)
		}, 1, v1alpha1.RolloutProgressing, 1},
		"Who is being deleted isn't waited for":    {v1alpha1.Rollout{Waves: []v1alpha1.Wave{percent(100)}}, 2, func(f *fleet) { f.broken["box-00"] = 2; f.members[0].Deleting = true; f.settle(two) }, 2, v1alpha1.RolloutComplete, 2},
		"The first revision of all needs no waves": {v1alpha1.Rollout{Waves: []v1alpha1.Wave{percent(50)}}, 4, func(f *fleet) { f.state.Serving = 0; f.settle(two) }, 4, "", 2},
		"A new instance is in the wave of its position": {v1alpha1.Rollout{Waves: []v1alpha1.Wave{pausing(labelled("canary"), time.Hour)}}, 1, func(f *fleet) {
			f.members[0].Labels = labels.Set{"canary": "yes"}
			f.settle(two)
			f.members = append(f.members, revision.Member{Name: "new", Labels: labels.Set{"canary": "yes"}}, revision.Member{Name: "other"})
			f.compose()
		}, 2, v1alpha1.RolloutPausing, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, tc.n, tc.rollout)
			tc.act(f)
			phase := v1alpha1.RolloutPhase("")
			if f.state.Rollout != nil {
				phase = f.state.Rollout.Phase
			}
			if f.have(2) != tc.have || phase != tc.phase || f.state.Serving != tc.serving {
				t.Errorf("%d have it, it is %q, and %d serves: %+v", f.have(2), phase, f.state.Serving, f.state.Rollout)
			}
		})
	}
}

func TestStepTo(t *testing.T) {
	rollout := func(number int64, phase v1alpha1.RolloutPhase) *v1alpha1.RolloutStatus {
		return &v1alpha1.RolloutStatus{Revision: number, Phase: phase}
	}
	halves := newFleet(t, 0, v1alpha1.Rollout{Waves: []v1alpha1.Wave{percent(50)}}).waves
	cases := map[string]struct {
		reason   string
		from     revision.State
		waves    revision.Waves
		to       int64
		now      int64
		recorded string
		rollout  int64
	}{
		"The first revision":                      {"it doesn't wait", revision.State{}, revision.Waves{}, 2, 2, "", 0},
		"Another":                                 {"it waits until it is written", revision.State{Serving: 1}, revision.Waves{}, 2, 1, "RevisionServed", 0},
		"The same":                                {"nothing changes", revision.State{Serving: 2}, revision.Waves{}, 2, 2, "", 0},
		"The same, which was rolled out":          {"the status still says how", revision.State{Serving: 2, Rollout: rollout(2, v1alpha1.RolloutComplete)}, revision.Waves{}, 2, 2, "", 2},
		"The same, after another was rolled out":  {"the status says nothing of that", revision.State{Serving: 2, Rollout: rollout(3, v1alpha1.RolloutComplete)}, revision.Waves{}, 2, 2, "", 0},
		"The same, while another is rolled out":   {"its rollout ends", revision.State{Serving: 2, Rollout: rollout(3, v1alpha1.RolloutProgressing)}, revision.Waves{}, 2, 2, "RolloutEnded", 0},
		"A third, while another is rolled out":    {"its rollout ends", revision.State{Serving: 1, Rollout: rollout(3, v1alpha1.RolloutProgressing)}, revision.Waves{}, 2, 1, "RolloutEnded RevisionServed", 0},
		"One being rolled out, now without waves": {"it serves all", revision.State{Serving: 1, Rollout: rollout(2, v1alpha1.RolloutProgressing)}, revision.Waves{}, 2, 1, "RevisionServed", 0},
		"A third in waves":                        {"the former rollout ends", revision.State{Serving: 1, Rollout: rollout(3, v1alpha1.RolloutProgressing)}, halves, 2, 1, "RolloutEnded RolloutStarted RolloutComplete", 2},
	}
	for name, tc := range cases {
		step := tc.from.StepTo(revision.Target{Number: tc.to, Reason: revision.Latest}, tc.waves, func() []revision.Member { return nil }, noon)
		var recorded []string
		for _, transition := range step.Transitions {
			recorded = append(recorded, transition.Reason)
		}
		rollout := int64(0)
		if step.Next.Rollout != nil {
			rollout = step.Next.Rollout.Revision
		}
		if got := strings.Join(recorded, " "); step.Now.Serving != tc.now || step.Next.Serving != tc.to || got != tc.recorded || rollout != tc.rollout {
			t.Errorf("%s: %s: it records %q and the rollout of %d: %+v", name, tc.reason, got, rollout, step)
		}
	}
}

// roll sets other waves, as an author who edits the definition.
func (f *fleet) roll(waves ...v1alpha1.Wave) {
	f.t.Helper()
	changed, problems := revision.WavesOf(&v1alpha1.DefinitionSpec{Rollout: &v1alpha1.Rollout{Waves: waves}})
	if err := problems.Err(); err != nil {
		f.t.Fatal(err)
	}
	f.waves = changed
}

// TestWavesAreChangedWhileARolloutGoesOn: whoever was reached stays so, and nobody else is
// reached before the waves that there are now say so.
func TestWavesAreChangedWhileARolloutGoesOn(t *testing.T) {
	canary := pausing(labelled("canary"), time.Hour)
	tenth := pausing(percent(10), time.Hour)
	cases := map[string]struct {
		waves []v1alpha1.Wave
		have  int // of ten, one of which is the canary, in no tenth
		wave  int32
		told  string
	}{
		"A percentage takes the place of a selector": {[]v1alpha1.Wave{tenth}, 2, 1, "RolloutChanged"},
		"A wave is put before the one that began":    {[]v1alpha1.Wave{tenth, canary}, 2, 1, "RolloutChanged"},
		"The one that began is taken away":           {[]v1alpha1.Wave{pausing(labelled("nobody"), time.Hour), tenth}, 2, 2, "RolloutChanged"},
		"Others select":                              {[]v1alpha1.Wave{pausing(labelled("odd"), time.Hour)}, 6, 1, "RolloutChanged"},
		"Only the pause is another":                  {[]v1alpha1.Wave{pausing(labelled("canary"), 2*time.Hour)}, 1, 1, ""},
		"Others are put behind it":                   {[]v1alpha1.Wave{canary, tenth, percent(30)}, 1, 1, ""},
		"Fewer are to be reached, and all have been": {[]v1alpha1.Wave{pausing(v1alpha1.Wave{Selector: canary.Selector, Percent: percent(50).Percent}, time.Hour)}, 1, 1, "RolloutChanged"},
		"All are to be reached":                      {[]v1alpha1.Wave{percent(100)}, 10, 1, "RolloutChanged"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 10, v1alpha1.Rollout{Waves: []v1alpha1.Wave{canary}})
			f.members[7].Labels = labels.Set{"canary": "yes"}
			for i := 0; i < 10; i += 2 {
				f.members[i].Labels = labels.Set{"odd": "yes"}
			}
			f.settle(two)
			if f.have(2) != 1 || f.state.Rollout.Phase != v1alpha1.RolloutPausing {
				t.Fatalf("it begins with the canary: %+v", f.state.Rollout)
			}
			f.story = nil
			f.roll(tc.waves...)
			f.compose()
			if f.have(2) != 1 {
				t.Fatalf("%d are reached by nothing but another spec", f.have(2))
			}
			f.settle(two)
			if f.have(2) != tc.have || f.members[7].Revision != 2 || f.state.Rollout.Wave != tc.wave {
				t.Errorf("%d have it, and the canary has %d: %+v", f.have(2), f.members[7].Revision, f.state.Rollout)
			}
			if told := strings.Contains(strings.Join(f.story, " "), "RolloutChanged"); told != (tc.told != "") {
				t.Errorf("it tells %v", f.story)
			}
			for range 5 {
				f.now = f.now.Add(2 * time.Hour)
				f.settle(two)
			}
			if f.state.Serving != 2 || f.have(2) != 10 {
				t.Errorf("it doesn't end: %+v", f.state)
			}
		})
	}
}

// TestWavesAreChangedRepeatedly: what is remembered of former waves is bounded.
func TestWavesAreChangedRepeatedly(t *testing.T) {
	f := newFleet(t, 10, v1alpha1.Rollout{Waves: []v1alpha1.Wave{pausing(percent(10), time.Hour)}})
	f.settle(two)
	for i := range 200 {
		f.roll(pausing(labelled(fmt.Sprintf("l%d", i%150)), time.Hour), pausing(percent(int32(10+i%2)), time.Hour))
		f.settle(two)
	}
	if n := len(f.state.Rollout.Begun); n > 70 {
		t.Errorf("%d waves are remembered", n)
	}
	if f.have(2) != 2 {
		t.Errorf("%d have it", f.have(2))
	}
}

// TestAWaveOfAllHasNoBound: the status shows no number that stands for all, nor one that was
// written before, and the wave reaches everybody all the same.
func TestAWaveOfAllHasNoBound(t *testing.T) {
	f := newFleet(t, 10, v1alpha1.Rollout{Waves: []v1alpha1.Wave{pausing(labelled("canary"), time.Hour), pausing(percent(50), time.Hour)}})
	f.members[7].Labels["canary"] = "yes"
	f.settle(two)
	if b := f.state.Rollout.Begun; len(b) != 1 || b[0].Below != 0 || f.have(2) != 1 {
		t.Fatalf("%d have it, by %+v", f.have(2), b)
	}
	f.state.Rollout.Begun[0].Below = 1 << 32
	f.settle(two)
	if b := f.state.Rollout.Begun; len(b) != 1 || b[0].Below != 0 || f.have(2) != 1 {
		t.Fatalf("%d have it, by %+v", f.have(2), b)
	}
	f.now = f.now.Add(2 * time.Hour)
	f.settle(two)
	if b := f.state.Rollout.Begun; len(b) != 2 || b[1].Below == 0 || b[1].Below >= 1<<32 {
		t.Errorf("half of all has the bound %+v", b)
	}
}

func TestInvalidRollouts(t *testing.T) {
	odd, negative := intstr.FromString("half"), intstr.FromInt32(-1)
	cases := map[string]struct {
		rollout v1alpha1.Rollout
		want    []string
	}{
		"A wave without percent and selector": {v1alpha1.Rollout{Waves: []v1alpha1.Wave{{}}}, []string{"spec.rollout.waves[0]: requires percent or selector"}},
		"Percentages that shrink":             {v1alpha1.Rollout{Waves: []v1alpha1.Wave{percent(50), percent(20)}}, []string{"spec.rollout.waves[1].percent: must be more than the 50% of an earlier wave"}},
		"All at once": {
			v1alpha1.Rollout{MaxUnavailable: &odd, ProgressDeadline: &metav1.Duration{}, Waves: []v1alpha1.Wave{pausing(percent(5), -time.Second), {Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}}}},
			[]string{"spec.rollout.maxUnavailable", `not "half"`, "spec.rollout.progressDeadline", "spec.rollout.waves[0].pause", `spec.rollout.waves[1].selector: "Like" is not a valid label selector operator`},
		},
		"Fewer than none": {v1alpha1.Rollout{MaxUnavailable: &negative, Waves: []v1alpha1.Wave{percent(5)}}, []string{"spec.rollout.maxUnavailable: must not be negative"}},
	}
	for name, tc := range cases {
		_, problems := revision.WavesOf(&v1alpha1.DefinitionSpec{Rollout: &tc.rollout})
		err := problems.Err()
		if err == nil {
			t.Errorf("%s: is accepted", name)
			continue
		}
		for _, text := range tc.want {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: doesn't say %q: %v", name, text, err)
			}
		}
	}
}

func TestAWaveWithAnInvalidSelectorDoesNotCountForLaterOnes(t *testing.T) {
	invalid := percent(80)
	invalid.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}
	_, problems := revision.WavesOf(&v1alpha1.DefinitionSpec{Rollout: &v1alpha1.Rollout{Waves: []v1alpha1.Wave{invalid, percent(20)}}})
	if len(problems) != 1 || !strings.Contains(problems.Err().Error(), "spec.rollout.waves[0].selector: ") {
		t.Errorf("want the problem of the selector only, got %v", problems)
	}
}

// TestSelectorsOfBegunWavesThatMatchNothing: a wave that seems empty is checked when one begins, and not again.
func TestSelectorsOfBegunWavesThatMatchNothing(t *testing.T) {
	volunteers, others := labels.Set{"volunteer": "yes"}, labels.Set{}
	w, problems := revision.WavesOf(&v1alpha1.DefinitionSpec{Rollout: &v1alpha1.Rollout{Waves: []v1alpha1.Wave{
		{Selector: &metav1.LabelSelector{MatchLabels: volunteers}}, percent(50),
	}}})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		members []revision.Member
		want    string
	}{
		"a volunteer":          {[]revision.Member{{Name: "a", Labels: volunteers, Ready: true, Revision: 1}, {Name: "b", Labels: others, Ready: true, Revision: 1}}, "[]"},
		"none":                 {[]revision.Member{{Name: "a", Labels: others, Ready: true, Revision: 1}, {Name: "b", Labels: others, Ready: true, Revision: 1}}, "[volunteer=yes]"},
		"one that is pinned":   {[]revision.Member{{Name: "a", Labels: volunteers, Pinned: true}, {Name: "b", Labels: others, Ready: true, Revision: 1}}, "[volunteer=yes]"},
		"one that is deleting": {[]revision.Member{{Name: "a", Labels: volunteers, Deleting: true}, {Name: "b", Labels: others, Ready: true, Revision: 1}}, "[volunteer=yes]"},
	} {
		members := func() []revision.Member { return c.members }
		begins := revision.State{Serving: 1}.StepTo(two, w, members, noon)
		if got := fmt.Sprint(begins.UnmatchedSelectors(members)); got != c.want {
			t.Errorf("%s: the first step has %s, not %s", name, got, c.want)
		}
		if waits := begins.Next.StepTo(two, w, members, noon); len(waits.UnmatchedSelectors(members)) > 0 {
			t.Errorf("%s: a step that begins no wave has %v", name, waits.UnmatchedSelectors(members))
		}
	}
	if step := (revision.State{Serving: 1}).StepTo(two, revision.Waves{}, nil, noon); len(step.UnmatchedSelectors(nil)) > 0 {
		t.Error("without waves there are selectors")
	}
}

// TestNoInstanceIsReverted runs rollouts of any shape: who has been reached stays so, waves hold
// as many as they say, and the end is reached by all.
func TestNoInstanceIsReverted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var waves []v1alpha1.Wave
		most := int32(0)
		for range rapid.IntRange(1, 4).Draw(t, "waves") {
			most = rapid.Int32Range(min(most+1, 100), 100).Draw(t, "percent")
			waves = append(waves, percent(most))
			if most == 100 {
				break
			}
		}
		spec := v1alpha1.DefinitionSpec{Rollout: &v1alpha1.Rollout{Waves: waves}}
		w, problems := revision.WavesOf(&spec)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		f := &fleet{waves: w, state: revision.State{Serving: 1}, now: noon}
		for i := range rapid.IntRange(0, 40).Draw(t, "instances") {
			f.members = append(f.members, revision.Member{Name: fmt.Sprintf("i%d", i), Labels: labels.Set{}})
		}
		reached := map[string]bool{}
		for range 50 {
			f.look(two)
			for _, m := range f.members {
				switch {
				case m.Revision == 2:
					reached[m.Name] = true
				case reached[m.Name]:
					t.Fatalf("%s was taken back", m.Name)
				}
			}
			if r := f.state.Rollout; r.Phase == v1alpha1.RolloutProgressing && int(r.Wave) <= len(waves) && r.Wave > 0 {
				n := len(f.members)
				if want := (n*int(*waves[r.Wave-1].Percent) + 99) / 100; f.have(2) != want {
					t.Fatalf("%d of %d are reached in wave %d, not %d", f.have(2), n, r.Wave, want)
				}
			}
		}
		if f.have(2) != len(f.members) || f.state.Serving != 2 {
			t.Fatalf("it doesn't end: %+v", f.state.Rollout)
		}
	})
}

// TestOtherWavesRevertNoInstance changes the waves at any time: who has been reached stays
// so, another spec alone reaches nobody, and once the waves stay as they are, the end comes.
func TestOtherWavesRevertNoInstance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func() []v1alpha1.Wave {
			var waves []v1alpha1.Wave
			most := int32(0)
			for range rapid.IntRange(1, 4).Draw(t, "waves") {
				if key := rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "selects"); key != "" {
					waves = append(waves, pausing(labelled(key), time.Hour))
				} else if most < 90 {
					most = rapid.Int32Range(most+1, 90).Draw(t, "percent")
					waves = append(waves, pausing(percent(most), time.Hour))
				}
			}
			return append(waves, percent(100))
		}
		set := func(f *fleet) {
			w, problems := revision.WavesOf(&v1alpha1.DefinitionSpec{Rollout: &v1alpha1.Rollout{Waves: draw()}})
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			f.waves = w
		}
		f := &fleet{state: revision.State{Serving: 1}, now: noon}
		set(f)
		for i := range rapid.IntRange(0, 20).Draw(t, "instances") {
			own := labels.Set{}
			for _, key := range []string{"a", "b", "c"} {
				if rapid.Bool().Draw(t, key) {
					own[key] = "yes"
				}
			}
			f.members = append(f.members, revision.Member{Name: fmt.Sprintf("i%d", i), Labels: own})
		}
		f.compose()
		reached := map[string]bool{}
		check := func() {
			for _, m := range f.members {
				if reached[m.Name] && m.Revision != 2 {
					t.Fatalf("%s was taken back", m.Name)
				}
				reached[m.Name] = m.Revision == 2
			}
		}
		for range rapid.IntRange(0, 10).Draw(t, "looks") {
			f.look(two)
			check()
			if rapid.Bool().Draw(t, "change") {
				set(f)
				before := f.have(2)
				f.compose()
				if f.have(2) != before {
					t.Fatalf("%d were reached by another spec alone", f.have(2)-before)
				}
			}
			f.now = f.now.Add(time.Duration(rapid.IntRange(0, 2).Draw(t, "hours")) * time.Hour)
		}
		for range 50 {
			f.look(two)
			check()
			f.now = f.now.Add(time.Hour)
		}
		if f.state.Serving != 2 || f.have(2) != len(f.members) {
			t.Fatalf("it doesn't end: %+v", f.state.Rollout)
		}
	})
}
