package condition_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
)

var (
	noon  = time.Date(2026, 8, 1, 12, 0, 0, 123, time.UTC)
	later = noon.Add(time.Hour)
)

func of(kind string, status metav1.ConditionStatus, reason string) v1alpha1.Condition {
	return v1alpha1.Condition{Type: kind, Status: status, Reason: reason, Message: "because of " + reason}
}

// TestMarkBoundsTexts marks a condition whose texts are somebody else's.
func TestMarkBoundsTexts(t *testing.T) {
	long := strings.Repeat("\x1b", 1<<20)
	set := condition.Set{}.Mark(v1alpha1.Condition{Type: "T\n" + long, Reason: "R\r" + long, Message: "one\ntwo\x1b" + long}, noon)
	set = set.Mark(v1alpha1.Condition{Type: "T\n" + long}, noon)
	got := set[0]
	if len(set) != 1 || !strings.HasPrefix(got.Type, `T \x1b`) || len(got.Type) > 316 || len(got.Reason) > 1024 || len(got.Message) > 32<<10 {
		t.Errorf("%d conditions; %.20s with %d bytes, a reason with %d, a message with %d", len(set), got.Type, len(got.Type), len(got.Reason), len(got.Message))
	}
	if !utf8.ValidString(got.Message) || strings.Contains(got.Type+got.Reason+got.Message, "\x1b") {
		t.Error("the texts have control characters")
	}
}

func TestMark(t *testing.T) {
	var none condition.Set
	first := none.Mark(of("Ready", condition.False, "Waiting"), noon)
	cases := map[string]struct {
		reason string
		mark   v1alpha1.Condition
		since  time.Time
	}{
		"The same again has the same time":      {"a pass that finds what the last one found writes nothing", of("Ready", condition.False, "Waiting"), noon},
		"Another reason is no transition":       {"the time is that of the status", of("Ready", condition.False, "Broken"), noon},
		"Another status is a transition":        {"it has changed just now", of("Ready", condition.True, "Ready"), later},
		"Another kind of condition has its own": {"types are apart", of("Stalled", condition.True, "WaitTimeout"), later},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before, _ := first.Get("Ready")
			set := first.Mark(tc.mark, later)
			got, _ := set.Get(tc.mark.Type)
			if want := tc.since.Truncate(time.Second); !got.LastTransitionTime.Time.Equal(want) {
				t.Errorf("%s: want %s, got %s", tc.reason, want, got.LastTransitionTime)
			}
			if got.Reason != tc.mark.Reason || got.Message != tc.mark.Message {
				t.Errorf("got %v", got)
			}
			if after, _ := first.Get("Ready"); !cmp.Equal(before, after) {
				t.Error("the set that was marked has changed")
			}
		})
	}
	if len(none) != 0 || len(first.Mark(of("Ready", condition.True, "x"), later)) != 1 {
		t.Error("there is at most one condition of a type")
	}
	if dropped := first.Remove("Ready"); len(dropped) != 0 || len(first) != 1 {
		t.Errorf("got %v of %v", dropped, first)
	}
}

func TestSummarize(t *testing.T) {
	cases := map[string]struct {
		reason string
		set    condition.Set
		want   v1alpha1.Condition
	}{
		"All true is true": {
			"nothing is missing",
			condition.Set{of("A", condition.True, "x"), of("B", condition.True, "y")},
			v1alpha1.Condition{Type: "Ready", Status: condition.True, Reason: "Ready"},
		},
		"The first that is false says why": {
			"causes come first",
			condition.Set{of("A", condition.False, "x"), of("B", condition.False, "y")},
			of("Ready", condition.False, "x"),
		},
		"What is false goes before what is unknown": {
			"a known problem says more",
			condition.Set{of("A", condition.Unknown, "x"), of("B", condition.False, "y")},
			of("Ready", condition.False, "y"),
		},
		"The first that is unknown otherwise": {
			"it is looked at first",
			condition.Set{of("A", condition.Unknown, "x"), of("B", condition.Unknown, "y")},
			of("Ready", condition.Unknown, "x"),
		},
		"What isn't there is unknown": {
			"it was not reconciled yet",
			condition.Set{of("A", condition.True, "x")},
			v1alpha1.Condition{Type: "Ready", Status: condition.Unknown, Reason: "AwaitingReconciliation", Message: "not reconciled yet"},
		},
		"What doesn't belong to it doesn't count": {
			"the author of the summary names its parts",
			condition.Set{of("A", condition.True, "x"), of("B", condition.True, "y"), of("C", condition.False, "z")},
			v1alpha1.Condition{Type: "Ready", Status: condition.True, Reason: "Ready"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.want.ObservedGeneration = 7
			if diff := cmp.Diff(tc.want, tc.set.Summarize("Ready", 7, "A", "B")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestUnstructuredAndReadRoundTrip(t *testing.T) {
	at := metav1.NewTime(noon.Truncate(time.Second))
	set := condition.Set{
		{Type: "Ready", Status: condition.False, Reason: "R", Message: "m", LastTransitionTime: &at, ObservedGeneration: 3},
		{Type: "Bare", Status: condition.Unknown},
	}
	o := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": set.Unstructured()}}}
	if diff := cmp.Diff(set, condition.Read(o)); diff != "" {
		t.Errorf("-written +read:\n%s", diff)
	}
	if !set.Mark(of("Ready", condition.True, "x"), noon).IsTrue("Ready") || set.IsTrue("Ready") || set.IsTrue("Missing") {
		t.Error("IsTrue tells something else")
	}
}

func TestReadIgnoresMalformedConditions(t *testing.T) {
	for name, status := range map[string]any{
		"No status":         nil,
		"A text":            "ready",
		"A map":             map[string]any{"conditions": map[string]any{"Ready": "True"}},
		"A list of text":    map[string]any{"conditions": []any{"Ready"}},
		"One without type":  map[string]any{"conditions": []any{map[string]any{"status": "True"}}},
		"Odd types of data": map[string]any{"conditions": []any{map[string]any{"type": 7, "status": true}}},
	} {
		o := &unstructured.Unstructured{Object: map[string]any{"status": status}}
		if got := condition.Read(o); len(got) != 0 {
			t.Errorf("%s: got %v", name, got)
		}
	}
	odd := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{
		map[string]any{"type": "Ready", "status": "True", "lastTransitionTime": "yesterday", "observedGeneration": "3"},
	}}}}
	if diff := cmp.Diff(condition.Set{{Type: "Ready", Status: condition.True}}, condition.Read(odd)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestProgress(t *testing.T) {
	ready := func(status metav1.ConditionStatus) v1alpha1.Condition { return of("Ready", status, "R") }
	cases := map[string]struct {
		reason  string
		root    v1alpha1.Condition
		stalled bool
		want    []string
	}{
		"A ready object needs nothing":        {"kstatus takes either condition for more than Ready", ready(condition.True), true, nil},
		"One that is not ready needs time":    {"nobody has to act", ready(condition.False), false, []string{"Reconciling R because of R"}},
		"One that needs an action is stalled": {"waiting does not help", ready(condition.False), true, []string{"Stalled R because of R"}},
		"Of a list, the first problem is named": {
			"the list is not repeated", v1alpha1.Condition{Type: "Ready", Status: condition.False, Reason: "R", Message: "a is wrong\nb is wrong\nc is wrong"}, true,
			[]string{"Stalled R a is wrong (and 2 more: see condition Ready)"},
		},
		"What is not known yet is not an error": {"the next reconcile knows more", ready(condition.Unknown), true, []string{"Reconciling R because of R"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for _, before := range []condition.Set{nil, {of("Reconciling", condition.True, "x")}, {of("Stalled", condition.True, "x")}} {
				var got []string
				for _, c := range before.MarkProgress(condition.ProgressOf(tc.root, tc.stalled), 7, noon) {
					got = append(got, c.Type+" "+c.Reason+" "+c.Message)
					if c.Status != condition.True || c.ObservedGeneration != 7 {
						t.Errorf("%v", c)
					}
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("%s; before %v (-want +got):\n%s", tc.reason, before, diff)
				}
			}
		})
	}
}
