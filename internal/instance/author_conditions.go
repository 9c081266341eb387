package instance

import (
	"slices"

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

// They are the dialect's own, or the author's instead. A condition of the author's that has no value stays as it was, and
// is a problem.
func (m *memory) authorConditions(of plan.Desired, before, own condition.Set, at Moment) (shown condition.Set, evaluated plan.AuthorConditions) {
	if of.AuthorConditions == nil {
		m.dialectConditions = nil
		return own, plan.AuthorConditions{}
	}
	m.dialectConditions = own
	evaluated = of.AuthorConditions(own)
	return replace(before, evaluated, at), evaluated
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
