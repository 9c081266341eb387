package instance

import (
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/plan"
)

// ownConditions are the types of the conditions that the dialect of graphs has itself.
var ownConditions = []string{
	v1alpha1.InstanceManaged, v1alpha1.InstanceGraphResolved, v1alpha1.InstanceResourcesReady, v1alpha1.InstanceReady, v1alpha1.InstanceStalled, v1alpha1.InstanceDrifted,
}

// authored is what the status shows: the dialect's own conditions, or the author's
// instead. One of the author's that has no value is an error of the instance, and what
// was told of it stays.
func (v *visit) authored(before, own condition.Set, summary *plan.Summary, at Moment) condition.Set {
	if v.desired.Author == nil {
		v.memory.own = nil
		return own
	}
	v.memory.own = own
	said := v.desired.Author(own)
	if len(said.Problems) > 0 {
		summary.State = v1alpha1.InstanceError
		v.desired.Results = append(v.desired.Results, plan.Result{Warning: true, Reason: "ConditionFailed", Message: strings.Join(said.Problems, "; ")})
	}
	return replace(before, said, at)
}

// replace puts the author's conditions in the place of what was told before.
func replace(before condition.Set, said plan.Said, at Moment) condition.Set {
	out := before
	made := map[string]bool{}
	for _, c := range said.Conditions {
		out, made[c.Type] = at.Mark(out, c), true
	}
	return slices.DeleteFunc(slices.Clone(out), func(c v1alpha1.Condition) bool {
		authors := slices.Contains(said.Types, c.Type) || !slices.Contains(ownConditions, c.Type)
		return !made[c.Type] && !(said.Partial && authors)
	})
}
