package graph

import (
	"fmt"

	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// countItems counts the items of a collection among the instance's objects. It refuses them all
// if they exceed the limit: no object of the collection is changed.
func (c *composition) countItems(n *Node, items int) plan.Problem {
	if c.objects+items > c.facts.Limits.Objects {
		c.tooManyObjects = true
		return c.facts.Limits.TooMany(c.objects+items, fmt.Sprintf("the %d items of %s", items, n.ID))
	}
	c.objects += items
	return plan.Problem{}
}

// exceededLimits lists the limits that the composition has exceeded.
func (c *composition) exceededLimits() (limits []plan.Limit) {
	for _, name := range c.budget.Exceeded() {
		limits = append(limits, limitOf(name))
	}
	if c.tooManyObjects {
		limits = append(limits, plan.ObjectsLimit)
	}
	return limits
}

// limitOf is the limit of an instance that a budget of expressions enforces.
func limitOf(budget string) plan.Limit {
	if budget == expr.BudgetBytes {
		return plan.BytesLimit
	}
	return plan.CostLimit
}
