package instance

import (
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// ownConditions are the types of the conditions that the dialect of graphs has itself.
var ownConditions = []string{
	v1alpha1.InstanceManaged, v1alpha1.InstanceGraphResolved, v1alpha1.InstanceResourcesReady, v1alpha1.InstanceReady, v1alpha1.InstanceStalled,
	v1alpha1.InstanceReconciling, v1alpha1.InstanceDrifted,
	v1alpha1.InstanceOverridesIgnored,
}

// They are the dialect's own, or the author's instead. If one of the author's has no value, the instance is in error
// and the condition stays as it was.
func (s *reconcileState) authorConditions(before, own condition.Set, summary *plan.Summary, at Moment) condition.Set {
	if s.desired.AuthorConditions == nil {
		s.memory.dialectConditions = nil
		return own
	}
	s.memory.dialectConditions = own
	evaluated := s.desired.AuthorConditions(own)
	if len(evaluated.Problems) > 0 {
		summary.State = v1alpha1.InstanceError
		s.desired.Results = append(s.desired.Results, plan.Result{Warning: true, Reason: "ConditionFailed", Message: strings.Join(evaluated.Problems, "; ")})
	}
	return replace(before, evaluated, at)
}

func replace(before condition.Set, evaluated plan.AuthorConditions, at Moment) condition.Set {
	out := before
	made := map[string]bool{}
	for _, c := range evaluated.Conditions {
		out, made[c.Type] = at.Mark(out, c), true
	}
	return slices.DeleteFunc(slices.Clone(out), func(c v1alpha1.Condition) bool {
		authors := slices.Contains(evaluated.Types, c.Type) || !slices.Contains(ownConditions, c.Type)
		return !made[c.Type] && !(evaluated.Partial && authors)
	})
}
