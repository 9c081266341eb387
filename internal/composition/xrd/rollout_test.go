package xrd_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	serving "github.com/espalier-dev/espalier/internal/serving/revision"
)

func annotated(c *v1.Composition, pairs ...string) *v1.Composition {
	c.Annotations = map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		c.Annotations[pairs[i]] = pairs[i+1]
	}
	return c
}

const (
	waves    = `waves: [{selector: {matchLabels: {volunteer: "yes"}}}]`
	reaching = `{"serving":"small-1","rolling":"small-2","rollout":{"revision":7,"phase":"Progressing","wave":1,"waves":2,"begun":[{"selector":{"matchLabels":{"volunteer":"yes"}}}]}}`
)

// recording are the revisions with a recorded state.
func recording(state string, revisions ...*v1.CompositionRevision) (out []*v1.CompositionRevision) {
	for _, r := range revisions {
		out = append(out, r.DeepCopy())
	}
	out[0].Annotations = map[string]string{v1alpha1.RolloutStateAnnotation: state}
	return out
}

func volunteering(i xrd.Instance) { i.Object().SetLabels(map[string]string{"volunteer": "yes"}) }

func TestARolloutAssignsRevisions(t *testing.T) {
	there := []*v1.CompositionRevision{revision("small", 1, nil), revision("small", 2, map[string]string{"channel": "fast"}), revision("large", 9, nil)}
	asking := annotated(composition("small", nil), v1alpha1.RolloutAnnotation, waves)
	cases := map[string]struct {
		composition *v1.Composition
		state       string
		instance    xrd.Instance
		want        string
	}{
		"nothing is asked for":                      {composition("small", nil), reaching, instance(), "revision small-2 (Latest)"},
		"nothing is recorded: it stays":             {asking, "", instance(at("small-1")), "revision small-1 (Assigned)"},
		"nothing is recorded, and it is new":        {asking, "", instance(), "revision small-2 (Latest)"},
		"the rollout has not reached it":            {asking, reaching, instance(at("small-2")), "revision small-1 (Assigned)"},
		"the rollout has reached it":                {asking, reaching, instance(volunteering), "revision small-2 (Assigned)"},
		"it selects one itself":                     {asking, reaching, instance(onChannel("fast")), "revision small-2 (Latest)"},
		"it is pinned":                              {asking, reaching, instance(manual, at("small-2")), "revision small-2 (Referenced)"},
		"what is recorded is about a revision gone": {asking, `{"serving":"small-0"}`, instance(at("small-2")), "revision small-2 (Assigned)"},
		"it was composed by another composition":    {asking, "", instance(at("large-9")), "revision small-2 (Latest)"},
	}
	for name, tc := range cases {
		if got := xrd.SelectRevision(recording(tc.state, there...), tc.composition, tc.instance, legacy()).String(); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestReadRollout(t *testing.T) {
	there := []*v1.CompositionRevision{revision("small", 1, nil), revision("small", 2, nil), revision("small", 3, nil)}
	there[2].Status.Conditions = nil
	cases := map[string]struct {
		annotations []string
		target      int64
		reason      serving.Reason
		problems    string
	}{
		"the newest valid one":          {[]string{v1alpha1.RolloutAnnotation, waves}, 2, serving.Latest, ""},
		"a rollback":                    {[]string{v1alpha1.RollbackAnnotation, "1"}, 1, serving.RolledBack, ""},
		"a rollback from the newest":    {[]string{v1alpha1.RollbackAnnotation, "1", v1alpha1.RollbackFromAnnotation, "3"}, 1, serving.RolledBack, ""},
		"a rollback that is over":       {[]string{v1alpha1.RollbackAnnotation, "1", v1alpha1.RollbackFromAnnotation, "2"}, 2, serving.Latest, ""},
		"a rollback to nothing":         {[]string{v1alpha1.RollbackAnnotation, "7"}, 7, serving.RolledBack, "there is no revision 7"},
		"a rollback to no number":       {[]string{v1alpha1.RollbackAnnotation, "one"}, 0, serving.RolledBack, "must be a revision number"},
		"waves that are none":           {[]string{v1alpha1.RolloutAnnotation, "waves: []"}, 2, serving.Latest, "must have 1 to 20 waves, not 0"},
		"a field that does not exist":   {[]string{v1alpha1.RolloutAnnotation, "wave: 1"}, 2, serving.Latest, "is not a rollout"},
		"a wave without its instances":  {[]string{v1alpha1.RolloutAnnotation, "waves: [{pause: 1m}]"}, 2, serving.Latest, "requires percent or selector"},
		"a percentage that is too high": {[]string{v1alpha1.RolloutAnnotation, `{waves: [{percent: 10}], maxUnavailable: "200%"}`}, 2, serving.Latest, "maxUnavailable"},
	}
	for name, tc := range cases {
		got, asked := xrd.RolloutOf(annotated(composition("small", nil), tc.annotations...), there)
		problems := ""
		if len(got.Problems) > 0 {
			problems = got.Problems.Err().Error()
		}
		if !asked || got.Target.Number != tc.target || got.Target.Reason != tc.reason || !strings.Contains(problems, tc.problems) || (problems == "") != (tc.problems == "") {
			t.Errorf("%s: %t, %d (%s), %q", name, asked, got.Target.Number, got.Target.Reason, problems)
		}
	}
}

// TestARecordedRolloutSurvivesNewNumbers: a composition that has former content again gives that revision a new number.
func TestARecordedRolloutSurvivesNewNumbers(t *testing.T) {
	small := composition("small", nil)
	there := []*v1.CompositionRevision{revision("small", 1, nil), revision("small", 2, nil)}
	state := serving.State{Serving: 1, Rollout: &v1alpha1.RolloutStatus{Revision: 2, Phase: v1alpha1.RolloutStopped, Total: 3, Unready: []v1alpha1.UnreadyInstance{{Name: "a"}}}}
	text, err := xrd.StateAnnotation(state, there)
	if err != nil {
		t.Fatal(err)
	}
	there[0].Spec.Revision = 3
	got, _ := xrd.RolloutOf(annotated(small, v1alpha1.RolloutAnnotation, waves), recording(text, there...))
	want := serving.State{Serving: 3, Rollout: &v1alpha1.RolloutStatus{Revision: 2, Phase: v1alpha1.RolloutStopped}}
	if diff := cmp.Diff(want, got.State); diff != "" {
		t.Error(diff)
	}
}

func TestWhatServesWhenARolloutStarts(t *testing.T) {
	of := func(numbers ...int64) (out []serving.Member) {
		for _, n := range numbers {
			out = append(out, serving.Member{Revision: n})
		}
		return append(out, serving.Member{Revision: 9, Pinned: true}, serving.Member{Revision: 9, Deleting: true}, serving.Member{})
	}
	for name, tc := range map[string]struct {
		members []serving.Member
		want    int64
	}{
		"what most have":        {of(1, 2, 1), 1},
		"the newer one of two":  {of(1, 2), 2},
		"nothing, without them": {of(), 0},
	} {
		if got := (xrd.Rollout{}).Started(tc.members); got.Serving != tc.want {
			t.Errorf("%s: %d", name, got.Serving)
		}
	}
	if got := (xrd.Rollout{State: serving.State{Serving: 4}}).Started(of(1)); got.Serving != 4 {
		t.Errorf("what is recorded serves, not %d", got.Serving)
	}
}

func TestAnnotationsAboutRevisionsAreNoContent(t *testing.T) {
	plain := xrd.Hash(composition("small", nil))
	if got := xrd.Hash(annotated(composition("small", nil), v1alpha1.RolloutAnnotation, waves, v1alpha1.RollbackAnnotation, "1")); got != plain {
		t.Error("they change the hash")
	}
	if got := xrd.Hash(annotated(composition("small", nil), "team", "a")); got == plain {
		t.Error("other annotations must change it")
	}
}
