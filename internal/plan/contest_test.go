package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/plan"
)

// TestAFieldThatIsLostAgainAndAgainIsLeftForAWhile takes a field back at the given
// seconds before now, and looks what becomes of its next loss.
func TestAFieldThatIsLostAgainAndAgainIsLeftForAWhile(t *testing.T) {
	cases := map[string]struct {
		reason string
		field  object.Path
		ago    []int
		want   plan.Action
		retry  time.Duration
	}{
		"A first loss is corrected":        {"it is drift like any other", "data.a", nil, plan.Correct, 0},
		"So is a third":                    {"somebody may take a moment to understand", "data.a", []int{30, 20}, plan.Correct, 0},
		"A fourth within a minute is left": {"two managers fight, and nobody wins", "data.a", []int{30, 20, 10}, plan.Hold, 31 * time.Second},
		"Older losses don't count":         {"it is a matter of a minute", "data.a", []int{70, 65, 61}, plan.Correct, 0},
		"The last three count":             {"the oldest of them ends the wait", "data.a", []int{200, 100, 50, 40, 30}, plan.Hold, 11 * time.Second},
		"Another field's losses don't":     {"each is fought over by itself", "data.c", []int{30, 20, 10}, plan.Correct, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			node := has(wants("a", 0, "x"), lost)
			var losses plan.Losses
			for _, seconds := range tc.ago {
				losses = losses.TookBack(node.Observed.GetUID(), []object.Path{tc.field}, now.Add(-time.Duration(seconds)*time.Second))
			}
			before := fmt.Sprint(losses)
			p := plan.Compute(plan.Desired{Nodes: []plan.Node{node}}, plan.Facts{Instance: instance(), Now: now}, plan.History{Losses: losses}, owner, v1alpha1.ChildManager)
			step := p.Steps[0]
			if step.Action != tc.want || step.Retry != tc.retry || p.Settled {
				t.Errorf("%s: got %s, again in %s", tc.reason, step.Action, step.Retry)
			}
			if step.Action == plan.Hold && step.Problem.Reason != plan.DriftContested {
				t.Errorf("the reason is %s", step.Problem.Reason)
			}
			if after := fmt.Sprint(losses); after != before {
				t.Errorf("deciding changed the losses from %s to %s", before, after)
			}
		})
	}
}
