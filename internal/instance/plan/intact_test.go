package plan_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

func TestFieldsAreComparedOnceForEachRevision(t *testing.T) {
	cases := map[string]struct {
		reason string
		lost   bool
		// known is the revision at which the child was found intact before; empty for none.
		known string
		want  plan.Action
		// intact says what is known of the child at its revision, which is 7, afterwards.
		intact bool
	}{
		"An intact child":                        {"it has all fields", false, "", plan.Keep, true},
		"A child that lost a field":              {"another manager has taken it over", true, "", plan.Correct, false},
		"A known revision":                       {"it is not compared again: this one would be corrected", true, "7", plan.Keep, true},
		"A child that has changed since":         {"its fields may have changed", true, "6", plan.Correct, false},
		"A child that has changed and is intact": {"its new revision is known then", false, "6", plan.Keep, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			node := has(wants("a", 0, "x"))
			if tc.lost {
				node = has(wants("a", 0, "x"), lost)
			}
			child := node.Observed.GetUID()
			node.Observed.SetResourceVersion("7")
			history := plan.History{}
			if tc.known != "" {
				history.Intact = plan.Intact{child: tc.known}
			}
			p := plan.Compute(plan.Desired{Nodes: []plan.Node{node}}, plan.Facts{Instance: instance(), Now: now}, history, owner, v1alpha1.ChildManager)
			if got := p.Steps[0].Action; got != tc.want {
				t.Errorf("%s: got %s, want %s", tc.reason, got, tc.want)
			}
			if got := history.Intact.Next(p.Steps)[child] == "7"; got != tc.intact {
				t.Errorf("%s: intact at its revision: %t", tc.reason, got)
			}
		})
	}
}

func TestWithoutARevisionNothingIsKnown(t *testing.T) {
	node := has(wants("a", 0, "x"), lost)
	history := plan.History{Intact: plan.Intact{node.Observed.GetUID(): ""}}
	p := plan.Compute(plan.Desired{Nodes: []plan.Node{node}}, plan.Facts{Instance: instance(), Now: now}, history, owner, v1alpha1.ChildManager)
	if got := p.Steps[0].Action; got != plan.Correct {
		t.Errorf("got %s", got)
	}
}

func TestChildrenThatAreGoneAreForgotten(t *testing.T) {
	var known plan.Intact
	for revision := range 10 {
		node := has(wants(fmt.Sprint("a", revision), 0, "x"))
		node.Observed.SetUID(types.UID(fmt.Sprint("uid-", revision)))
		node.Observed.SetResourceVersion("7")
		known = known.Next([]plan.Step{{Current: node.Observed, Intact: true}})
	}
	if len(known) > 2 {
		t.Errorf("%d are known, of one that exists", len(known))
	}
}
