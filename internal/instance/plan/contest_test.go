package plan_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
)

// TestAContestedFieldIsLeftForAWhile takes a field back at the given
// seconds before now, and looks what becomes of its next loss.
func TestAContestedFieldIsLeftForAWhile(t *testing.T) {
	cases := map[string]struct {
		reason string
		field  object.Path
		ago    []int
		want   plan.Action
		retry  time.Duration
	}{
		"A first loss is corrected":             {"it is drift like any other", "data.a", nil, plan.Correct, 0},
		"A third loss is corrected":             {"it may be a user's mistake", "data.a", []int{30, 20}, plan.Correct, 0},
		"A fourth loss within a minute is left": {"two managers overwrite each other", "data.a", []int{30, 20, 10}, plan.Defer, 10 * time.Second},
		"Older losses don't count":              {"only the last minute counts", "data.a", []int{70, 65, 61}, plan.Correct, 0},
		"The last three count":                  {"older corrections are over", "data.a", []int{200, 100, 50, 40, 30}, plan.Defer, 10 * time.Second},
		"Losses of another field don't count":   {"each field is contested by itself", "data.c", []int{30, 20, 10}, plan.Correct, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			node := has(wants("a", 0, "x"), lost)
			var losses plan.Contests
			for _, seconds := range tc.ago {
				losses = losses.WithCorrection(node.Observed.GetUID(), []object.Path{tc.field}, now.Add(-time.Duration(seconds)*time.Second))
			}
			before := fmt.Sprint(losses)
			p := plan.Compute(plan.Desired{Nodes: []plan.Node{node}}, plan.Facts{Instance: instance(), Now: now}, plan.History{Contests: losses}, owner, v1alpha1.ChildManager)
			step := p.Steps[0]
			if step.Action != tc.want || step.Retry != tc.retry || p.Settled {
				t.Errorf("%s: got %s, again in %s", tc.reason, step.Action, step.Retry)
			}
			if step.Action == plan.Defer && step.Problem.Reason != plan.DriftContested {
				t.Errorf("the reason is %s", step.Problem.Reason)
			}
			if field := plan.ContestedField(step.Problem.Message, step.Current); step.Action == plan.Defer && field != tc.field {
				t.Errorf("the message %q names field %q", step.Problem.Message, field)
			}
			if after := fmt.Sprint(losses); after != before {
				t.Errorf("deciding changed the losses from %s to %s", before, after)
			}
		})
	}
}

// TestAContestEndsSoonAfterTheOtherManagerStops has another manager write a field in certain seconds,
// and looks in each second what becomes of it.
func TestAContestEndsSoonAfterTheOtherManagerStops(t *testing.T) {
	every := func(seconds, until int) func(int, bool) bool {
		return func(at int, _ bool) bool { return at < until && at%seconds == 0 }
	}
	cases := map[string]struct {
		reason string
		// writes says whether the other manager writes in a second, given whether the field
		// is its own already.
		writes func(at int, theirs bool) bool
		// unready are the seconds from and to which the node isn't ready; none if it always is.
		unready []int
		// takenBack is how often the field is taken back.
		takenBack int
	}{
		"Three corrections are no contest":          {"it is drift like any other", every(5, 15), nil, 3},
		"A manager that writes every 20 seconds":    {"no user has to act", every(20, 300), nil, 15},
		"A manager that writes each second":         {"it is corrected ten seconds after the last write, and ready after ten more", every(1, 30), []int{3, 49}, 4},
		"A manager that overwrites each correction": {"it costs one request in ten seconds", func(at int, theirs bool) bool { return at < 60 && !theirs }, []int{3, 78}, 9},
		"A manager that writes every 15 seconds":    {"the status doesn't change between its writes", every(15, 180), []int{45, 185}, 12},
		"A manager that writes every 19 seconds":    {"the same for the slowest manager that counts", every(19, 180), []int{57, 191}, 10},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var (
				history   plan.History
				theirs    bool
				value     int
				unready   []int
				takenBack int
				ready     = true
			)
			for second := range 320 {
				at := now.Add(time.Duration(second) * time.Second)
				if tc.writes(second, theirs) {
					theirs, value = true, second
				}
				step := contestStep(t, history, theirs, value, at)
				history.Contests = history.Contests.WithObservedWrites(step, at)
				history.Contests.DropOld(at)
				if step.Action == plan.Correct {
					history.Contests = history.Contests.WithCorrection(step.Current.GetUID(), step.LostFields, at)
					theirs, takenBack = false, takenBack+1
					step = contestStep(t, history, theirs, value, at)
				}
				if is := step.Action != plan.Defer; is != ready {
					ready, unready = is, append(unready, second)
				}
			}
			if fmt.Sprint(unready) != fmt.Sprint(tc.unready) || takenBack != tc.takenBack {
				t.Errorf("%s: it is unready from and to %v, and was taken back %d times", tc.reason, unready, takenBack)
			}
		})
	}
}

func contestStep(t *testing.T, history plan.History, theirs bool, value int, at time.Time) plan.Step {
	t.Helper()
	node := has(wants("a", 0, "x"))
	if theirs {
		lost(node.Observed)
		node.Observed.Object["data"] = map[string]any{"a": fmt.Sprint(value)}
	}
	p := plan.Compute(plan.Desired{Nodes: []plan.Node{node}}, plan.Facts{Instance: instance(), Now: at}, history, owner, v1alpha1.ChildManager)
	step := p.Steps[0]
	if step.Action == plan.Defer && (step.Problem.Reason != plan.DriftContested || step.Retry <= 0) {
		t.Errorf("it waits for %v, and is looked at again in %s", step.Problem, step.Retry)
	}
	return step
}

func TestACorrectionLeavesTheInstanceReady(t *testing.T) {
	node := has(wants("a", 0, "x"), lost)
	p := plan.Compute(plan.Desired{Nodes: []plan.Node{node}}, plan.Facts{Instance: instance(), Now: now}, plan.History{}, owner, v1alpha1.ChildManager)
	if got := plan.Summarize(p, now); p.Steps[0].Action != plan.Correct || got.Reason != "" {
		t.Errorf("%s: it isn't ready: %s", p.Steps[0].Action, got.Message)
	}
}

func TestContestedField(t *testing.T) {
	o := &unstructured.Unstructured{Object: map[string]any{"kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "prod"}}}
	for message, want := range map[string]object.Path{
		"another manager keeps overwriting data.a of ConfigMap prod/a; it is corrected once that manager has stopped for 10s":                                               "data.a",
		`web: another manager keeps overwriting metadata.annotations["of x"] of ConfigMap prod/a`:                                                                           `metadata.annotations["of x"]`,
		"another manager keeps overwriting fields (names redacted: they may come from a Secret) of ConfigMap prod/a; it is corrected once that manager has stopped for 10s": "",
		"another manager keeps overwriting data.a of ConfigMap prod/other; it is corrected once that manager has stopped for 10s":                                           "",
		"something else": "",
	} {
		if got := plan.ContestedField(message, o); got != want {
			t.Errorf("%s: got %q", message, got)
		}
	}
}

func TestCorrectionsAreReadAsTheyAreWritten(t *testing.T) {
	o := &unstructured.Unstructured{Object: map[string]any{"kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "prod"}}}
	fields, managers, ok := plan.ReadCorrection(plan.CorrectionMessage("data.a, data.b", o, "kubectl and ops"), o)
	if !ok || fmt.Sprint(fields) != "[data.a data.b]" || managers != "kubectl and ops" {
		t.Errorf("got %v, %q, %v", fields, managers, ok)
	}
	for _, message := range []string{"data.a of ConfigMap prod/other was changed by ops and is corrected", "data.a of ConfigMap prod/a was changed by ops", ""} {
		if _, _, ok := plan.ReadCorrection(message, o); ok {
			t.Errorf("%q is read as a correction of %s", message, object.KeyOf(o))
		}
	}
}

func TestOldContestsAreDropped(t *testing.T) {
	var losses plan.Contests
	losses = losses.WithCorrection("old", []object.Path{"data.a"}, now.Add(-61*time.Second))
	losses = losses.WithCorrection("both", []object.Path{"data.a"}, now.Add(-61*time.Second))
	losses = losses.WithCorrection("both", []object.Path{"data.b"}, now)
	losses.DropOld(now)
	if _, old := losses["old"]; old || len(losses["both"]) != 1 || len(losses) != 1 {
		t.Errorf("left are %v", losses)
	}
}

func TestAFieldIsCededByWaitsForAnotherManagerOnly(t *testing.T) {
	contested := []object.Path{"data.a"}
	cases := map[string]struct {
		reason string
		change func(*plan.Step)
		ceded  bool
	}{
		"It waits":             {"the other manager has the field", func(*plan.Step) {}, true},
		"It takes the field":   {"the other manager has stopped", func(s *plan.Step) { s.Action = plan.Correct }, false},
		"Nothing is contested": {"it waits for something else", func(s *plan.Step) { s.ContestedFields = nil }, false},
		"Nothing is lost":      {"the field is ours", func(s *plan.Step) { s.LostFields = nil }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			child := has(wants("a", 0, "x"), lost).Observed
			step := plan.Step{Current: child, Action: plan.Defer, ContestedFields: contested, LostFields: contested}
			tc.change(&step)
			losses := plan.Contests(nil).WithCorrection(child.GetUID(), contested, now.Add(-time.Second)).WithObservedWrites(step, now)
			if ceded := losses[child.GetUID()]["data.a"].Ceded; ceded != tc.ceded {
				t.Errorf("%s: ceded is %t", tc.reason, ceded)
			}
		})
	}
}

// TestAStepWaitsForTheLastOfItsContestedFields has the other manager stop writing the two fields of a
// child at different times. It still owns both, or neither.
func TestAStepWaitsForTheLastOfItsContestedFields(t *testing.T) {
	ago := func(seconds int) time.Time { return now.Add(-time.Duration(seconds) * time.Second) }
	cases := map[string]struct {
		reason string
		theirs bool
		// a and b are how many seconds ago each field was written last.
		a, b  int
		want  plan.Action
		retry time.Duration
	}{
		"Theirs, and b is later":   {"the child is corrected at once", true, 6, 2, plan.Defer, 8 * time.Second},
		"Theirs, and a is later":   {"the order of the fields does not count", true, 1, 7, plan.Defer, 9 * time.Second},
		"Theirs, and one is quiet": {"the other is still written", true, 30, 3, plan.Defer, 7 * time.Second},
		"Theirs, and both quiet":   {"the other manager has stopped", true, 10, 11, plan.Correct, 0},
		"Ours, and b is later":     {"both must stay ours for a while", false, 6, 2, plan.Defer, 8 * time.Second},
		"Ours, and a is later":     {"the order of the fields does not count", false, 1, 7, plan.Defer, 9 * time.Second},
		"Ours, and one has stayed": {"the other must stay, too", false, 30, 3, plan.Defer, 7 * time.Second},
		"Ours, and both stayed":    {"the contest is over", false, 10, 11, plan.Keep, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			node := wants("a", 0, "x")
			node.Object.Object["data"] = map[string]any{"a": "b", "b": "c"}
			node = has(node)
			if tc.theirs {
				lost(node.Observed)
			}
			contest := func(field object.Path, last int) plan.Contest {
				if tc.theirs {
					return plan.Contest{Ceded: true, LastWrite: ago(last), ValueDigest: plan.FieldsDigest(node.Observed, []object.Path{field})}
				}
				return plan.Contest{Ceded: true, Corrections: []time.Time{ago(last + 20), ago(last)}}
			}
			history := plan.History{Contests: plan.Contests{node.Observed.GetUID(): {"data.a": contest("data.a", tc.a), "data.b": contest("data.b", tc.b)}}}
			step := plan.Compute(plan.Desired{Nodes: []plan.Node{node}}, plan.Facts{Instance: instance(), Now: now}, history, owner, v1alpha1.ChildManager).Steps[0]
			if step.Action != tc.want || step.Retry != tc.retry {
				t.Errorf("%s: got %s, again in %s", tc.reason, step.Action, step.Retry)
			}
			if tc.want == plan.Defer && fmt.Sprint(step.ContestedFields) != "[data.a data.b]" {
				t.Errorf("%s: it waits for %v", tc.reason, step.ContestedFields)
			}
		})
	}
}
