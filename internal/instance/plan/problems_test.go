package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

func TestProblems(t *testing.T) {
	held := func(node string, reason plan.Reason) plan.Step {
		return plan.Step{Node: node, Action: plan.Defer, Problem: plan.Problem{Reason: reason, Message: "because"}}
	}
	waits := func(w plan.Wait) plan.Step {
		return plan.Step{Node: w.Node, Action: plan.Defer, Waits: []plan.Wait{w}, Problem: plan.Problem{Reason: w.Reason, Message: w.String()}}
	}
	unready := func(o *unstructured.Unstructured) plan.Step {
		return plan.Step{Node: "a", Action: plan.Keep, Current: o, Unready: plan.Problem{Reason: plan.NotReady, Message: "a is not ready: a.data.b is false"}}
	}
	said := func(status string) *unstructured.Unstructured {
		o := rendered("a")
		o.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": status}}}
		return o
	}
	external := unready(said("False"))
	external.External = true
	problem := func(node string, reason plan.Reason, message string) report.Problem {
		return report.Problem{Node: node, Reason: string(reason), Message: message, Since: report.At(now)}
	}
	earlier := report.At(now.Add(-time.Minute))
	cases := map[string]struct {
		reason string
		steps  []plan.Step
		before []report.Problem
		want   []report.Problem
	}{
		"Nodes that are ready, skipped or to be written have none": {
			reason: "nothing is wrong",
			steps:  []plan.Step{{Node: "a", Action: plan.Keep, Ready: true}, {Node: "b", Action: plan.Skip}, {Node: "c", Action: plan.Update}},
		},
		"A node that can't be written has one": {
			reason: "no other field of the status has it",
			steps:  []plan.Step{held("a", plan.Rejected), held("b", plan.NotOwned), held("c", plan.WaitingForKind), held("d", plan.Unavailable)},
			want: []report.Problem{
				problem("a", plan.Rejected, "because"), problem("b", plan.NotOwned, "because"),
				problem("c", plan.WaitingForKind, "because"), problem("d", plan.Unavailable, "because"),
			},
		},
		"A node that waits for another has none": {
			reason: "status.waiting has it",
			steps: []plan.Step{
				waits(plan.Wait{Node: "a", Reason: plan.WaitingForField, On: "b.id"}), waits(plan.Wait{Node: "c", Reason: plan.WaitTimeout, On: "b.id"}),
			},
		},
		"An expression without a value says which and why": {
			reason: "status.waiting has no room for it",
			steps: []plan.Step{
				waits(plan.Wait{Node: "a", Reason: plan.EvaluationFailed, On: plan.UnnamedValue, Detail: `"1 / 0": division by zero`}),
				waits(plan.Wait{Node: "b", Reason: plan.EvaluationFailed, On: "metadata.labels", Detail: "it has a reserved key"}),
				waits(plan.Wait{Node: "c", Reason: plan.EvaluationFailed, On: "a name"}),
			},
			want: []report.Problem{
				problem("a", plan.EvaluationFailed, `"1 / 0": division by zero`), problem("b", plan.EvaluationFailed, "metadata.labels: it has a reserved key"),
				problem("c", plan.EvaluationFailed, "a name"),
			},
		},
		"An object that is unready by its own status has none": {
			reason: "the object shows it",
			steps:  []plan.Step{unready(said("False"))},
		},
		"An object that only readyWhen makes unready has one": {
			reason: "the object doesn't show it",
			steps:  []plan.Step{unready(said("True")), unready(rendered("a"))},
			want: []report.Problem{
				problem("a", plan.NotReady, "a is not ready: a.data.b is false"), problem("a", plan.NotReady, "a is not ready: a.data.b is false"),
			},
		},
		"A foreign object that is not ready has one": {
			reason: "it is no child",
			steps:  []plan.Step{external},
			want:   []report.Problem{problem("a", plan.NotReady, "a is not ready: a.data.b is false")},
		},
		"A problem keeps its time for as long as its reason is the same": {
			reason: "the same input gives the same status",
			steps:  []plan.Step{held("a", plan.Rejected), held("b", plan.Forbidden)},
			before: []report.Problem{{Node: "a", Reason: "Rejected", Message: "another", Since: earlier}, {Node: "b", Reason: "Rejected", Since: earlier}},
			want:   []report.Problem{{Node: "a", Reason: "Rejected", Message: "because", Since: earlier}, problem("b", plan.Forbidden, "because")},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, plan.Problems(tc.steps, tc.before, now)); diff != "" {
				t.Errorf("%s\n-want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestProblemsAreBounded(t *testing.T) {
	var steps []plan.Step
	for i := range 100 {
		steps = append(steps, plan.Step{
			Node: fmt.Sprintf("n%d", i), Action: plan.Defer, Problem: plan.Problem{Reason: plan.Rejected, Message: strings.Repeat("x", 4000)},
		})
	}
	got := plan.Problems(steps, nil, now)
	if len(got) != 20 || got[0].Node != "n0" || len(got[0].Message) > 512 {
		t.Errorf("%d problems, the first of %d bytes", len(got), len(got[0].Message))
	}
}
