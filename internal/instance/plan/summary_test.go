package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

func TestSummarize(t *testing.T) {
	held := func(node string, reason plan.Reason) plan.Step {
		return plan.Step{Node: node, Action: plan.Defer, Problem: plan.Problem{Reason: reason, Message: "because"}}
	}
	waits := func(w plan.Wait) plan.Step {
		return plan.Step{Node: w.Node, Action: plan.Defer, Waits: []plan.Wait{w}, Problem: plan.Problem{Reason: w.Reason, Message: w.String()}}
	}
	missing := plan.Wait{Node: "b", Reason: plan.WaitingForField, On: "a.id", Since: now}
	overdue := plan.Wait{Node: "c", Reason: plan.WaitTimeout, On: "a.id", Since: now.Add(-time.Second)}
	cases := map[string]struct {
		reason string
		steps  []plan.Step
		want   plan.Summary
	}{
		"An instance without nodes is active": {
			reason: "all of nothing is there",
			want:   plan.Summary{State: v1alpha1.InstanceActive},
		},
		"Ready and skipped nodes have no message": {
			reason: "there is nothing to say",
			steps:  []plan.Step{{Node: "a", Action: plan.Keep, Ready: true}, {Node: "b", Action: plan.Skip, Problem: plan.Problem{Message: "left out"}}},
			want:   plan.Summary{State: v1alpha1.InstanceActive},
		},
		"A node that isn't ready says why": {
			reason: "the message names the node already",
			steps:  []plan.Step{{Node: "a", Action: plan.Keep, Unready: plan.Problem{Reason: plan.NotReady, Message: "a is not ready: 1/3"}}},
			want:   plan.Summary{State: v1alpha1.InstanceInProgress, Reason: plan.NotReady, Message: "a is not ready: 1/3"},
		},
		"A node that is to be written isn't ready": {
			reason: "the summary of a pass that ended before the write was made",
			steps:  []plan.Step{{Node: "a", Action: plan.Update}},
			want:   plan.Summary{State: v1alpha1.InstanceInProgress, Reason: plan.Unavailable, Message: "a: is being applied"},
		},
		"Causes come before their consequences": {
			reason: "nodes are in topological order",
			steps:  []plan.Step{held("a", plan.WaitingForKind), waits(missing)},
			want: plan.Summary{
				State: v1alpha1.InstanceInProgress, Reason: plan.WaitingForKind, Message: "a: because; b waits for unresolved a.id",
				Failed: "a: because", Waits: []plan.Wait{missing}, Retry: time.Second,
			},
		},
		"An error determines the reason, wherever it is": {
			reason: "a user has to solve it",
			steps:  []plan.Step{waits(missing), held("c", plan.Forbidden), held("d", plan.Rejected)},
			want: plan.Summary{
				State: v1alpha1.InstanceError, Reason: plan.Forbidden, Message: "b waits for unresolved a.id; c: because; d: because",
				Failed: "c: because; d: because", Waits: []plan.Wait{missing}, Retry: time.Second,
			},
		},
		"Expressions without value are listed separately": {
			reason: "it has a condition of its own",
			steps:  []plan.Step{held("a", plan.EvaluationFailed), held("b", plan.NotOwned)},
			want:   plan.Summary{State: v1alpha1.InstanceError, Reason: plan.EvaluationFailed, Message: "a: because; b: because", Failed: "a: because; b: because", Unresolvable: "a: because"},
		},
		"A limit of watches is no error of expressions": {
			reason: "what they read is unknown until another watch ends",
			steps:  []plan.Step{held("a", plan.WatchLimitExceeded)},
			want:   plan.Summary{State: v1alpha1.InstanceError, Reason: plan.WatchLimitExceeded, Message: "a: because", Failed: "a: because"},
		},
		"Waits past their limit stall": {
			reason: "they have a condition of their own, and are tried all the same",
			steps:  []plan.Step{waits(overdue), waits(missing)},
			want: plan.Summary{
				State: v1alpha1.InstanceError, Reason: plan.WaitTimeout, Message: "c waits for a.id; b waits for unresolved a.id", Failed: "c waits for a.id",
				Stalled: "c waits for a.id, since 2026-08-01T11:59:59Z, 2 attempts",
				Waits:   []plan.Wait{overdue, missing}, Retry: time.Second,
			},
		},
		"Failures are listed separately from unready nodes": {
			reason: "the one is a failure, the other only takes its time",
			steps: []plan.Step{
				{Node: "a", Action: plan.Keep, Unready: plan.Problem{Reason: plan.NotReady, Message: "a: 1/3"}},
				held("b", plan.Unavailable), held("c", plan.WaitingForNamespace), held("d", plan.ResourceDeleting), held("e", plan.Syncing),
			},
			want: plan.Summary{
				State: v1alpha1.InstanceInProgress, Reason: plan.NotReady, Message: "a: 1/3; b: because; c: because; d: because; e: because",
				Failed: "b: because; c: because",
			},
		},
		"An error of an object that exists is a failure": {
			reason: "it needs an action of a user, and what is merely unready does not",
			steps: []plan.Step{
				{Node: "a", Action: plan.Keep, Unready: plan.Problem{Reason: plan.NotReady, Message: "a: 1/3"}},
				{Node: "b", Action: plan.Keep, Unready: plan.Problem{Reason: plan.DriftContested, Message: "b: contested"}},
			},
			want: plan.Summary{State: v1alpha1.InstanceError, Reason: plan.DriftContested, Message: "a: 1/3; b: contested", Failed: "b: contested"},
		},
		"The soonest retry counts": {
			reason: "it covers the later ones",
			steps:  []plan.Step{waits(overdue), {Node: "a", Action: plan.Defer, Problem: plan.Problem{Reason: plan.DriftContested, Message: "again"}, Retry: 500 * time.Millisecond}},
			want: plan.Summary{
				State: v1alpha1.InstanceError, Reason: plan.WaitTimeout, Message: "c waits for a.id; a: again", Failed: "c waits for a.id; a: again",
				Stalled: "c waits for a.id, since 2026-08-01T11:59:59Z, 2 attempts",
				Waits:   []plan.Wait{overdue}, Retry: 500 * time.Millisecond,
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.want.Unready = tc.want.Message // it is all about nodes
			if diff := cmp.Diff(tc.want, plan.Summarize(plan.Plan{Steps: tc.steps}, now)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestAnInventoryProblemIsInTheState(t *testing.T) {
	for _, tc := range []struct {
		state  v1alpha1.InstanceState
		reason plan.Reason
		want   v1alpha1.InstanceState
	}{
		{v1alpha1.InstanceActive, plan.Rejected, v1alpha1.InstanceError},
		{v1alpha1.InstanceActive, plan.Unavailable, v1alpha1.InstanceInProgress},
		{v1alpha1.InstanceInProgress, plan.Forbidden, v1alpha1.InstanceError},
		{v1alpha1.InstanceError, plan.Unavailable, v1alpha1.InstanceError},
	} {
		problem := plan.Problem{Reason: tc.reason, Message: "because"}
		if got := (plan.Summary{State: tc.state}).WithInventoryProblem(problem); got.State != tc.want || got.InventoryProblem != problem {
			t.Errorf("%s with problem %s: got %+v", tc.state, tc.reason, got)
		}
	}
}

func TestMessagesAreBoundedAndKeepTheirReasons(t *testing.T) {
	steps := make([]plan.Step, 9)
	for i := range steps {
		steps[i] = plan.Step{Node: fmt.Sprint("n", i), Action: plan.Defer, Problem: plan.Problem{Reason: plan.Rejected, Message: strings.Repeat("é", 400) + fmt.Sprint(": reason ", i)}}
	}
	steps[1].Problem.Message = "short enough to stay as it is, though the others are too long"
	got := plan.Summarize(plan.Plan{Steps: steps}, now).Message
	for _, want := range []string{"n0: é", "é: reason 0; n1: " + steps[1].Problem.Message + "; n2: é", "é: reason 4; and 4 more"} {
		if !strings.Contains(got, want) {
			t.Errorf("the message doesn't say %q: %s", want, got)
		}
	}
	if len(got) > 1100 || len(got) < 900 || !utf8.ValidString(got) {
		t.Errorf("%d bytes, valid: %t", len(got), utf8.ValidString(got))
	}
}

func TestAProblemOfTheDesiredState(t *testing.T) {
	unknown := plan.Problem{Reason: plan.PipelineFailed, Message: "step a failed"}
	steps := []plan.Step{{Node: "a", Action: plan.Keep, Unready: plan.Problem{Reason: plan.NotReady, Message: "a: 1/3"}}}
	got := plan.Summarize(plan.Plan{Steps: steps, Problem: unknown}, now)
	want := plan.Summary{State: v1alpha1.InstanceError, Reason: plan.PipelineFailed, Message: "step a failed; a: 1/3", Failed: "step a failed", Unready: "a: 1/3"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the problem comes before the nodes (-want +got):\n%s", diff)
	}
}
