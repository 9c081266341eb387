package plan_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

func TestStillPruned(t *testing.T) {
	child := someone(func(o *unstructured.Unstructured) { owner.Mark(o, inventory.Place{Node: "n"}) })
	told := []report.Blocker{{Node: "n", BlockedObject: report.BlockedObject{Object: report.ObjectOf(child)}}}
	cases := map[string]struct {
		there []*unstructured.Unstructured
		steps []plan.Step
		want  int
	}{
		"A pruned object that exists":     {[]*unstructured.Unstructured{child}, []plan.Step{{Object: rendered("y")}}, 1},
		"A pruned object that is gone":    {nil, nil, 0},
		"An object that is desired again": {[]*unstructured.Unstructured{child}, []plan.Step{{Object: child}}, 0},
		"An object of a node that waits":  {[]*unstructured.Unstructured{child}, []plan.Step{{Current: child}}, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := plan.StillPruned(told, owned(tc.there...), tc.steps); len(got) != tc.want || len(told) != 1 {
				t.Errorf("got %v of %v", got, told)
			}
		})
	}
}
