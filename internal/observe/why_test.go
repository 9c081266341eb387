package observe_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/observe"
)

// Each node waits for both nodes of the step below, so that there are 2^steps ways to the causes.
func TestExplainWithManyWaysToTheSameCause(t *testing.T) {
	const steps = 200
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	top := observe.Node{Kind: "Ladder", Name: "demo", Exists: true, Instance: true, Ready: observe.False}
	for step := range steps {
		for _, side := range []string{"a", "b"} {
			n := observe.Node{Node: fmt.Sprint(side, step), Kind: "ConfigMap"}
			if step > 0 {
				for _, below := range []string{"a", "b"} {
					n.Waits = append(n.Waits, observe.Wait{On: fmt.Sprintf("%s%d.metadata.uid", below, step-1), Reason: string(plan.WaitingForField), Since: now})
				}
			}
			top.Children = append(top.Children, n)
		}
	}
	e := observe.Explain(top, now)
	if len(e.Chain) != steps+1 || e.Chain[steps].Node != "a0" || e.Chain[1].Node != fmt.Sprint("a", steps-1) {
		t.Errorf("the chain has %d links: %+v", len(e.Chain), e.Chain)
	}
	if len(e.Others) != 1 {
		t.Errorf("want b0 as the only other cause, got %+v", e.Others)
	}
}
