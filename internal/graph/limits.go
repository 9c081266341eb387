package graph

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// countItems counts the items of a collection among the instance's objects, and refuses them if
// they exceed the limit.
func (c *composition) countItems(n *Node, items int) plan.Problem {
	if c.objects+items > c.facts.Limits.Objects {
		c.tooManyObjects = c.facts.Limits.TooMany(c.objects+items, fmt.Sprintf("the %d items of %s", items, n.ID))
		return c.tooManyObjects
	}
	c.objects += items
	return plan.Problem{}
}

func (c *composition) exceededLimits() (limits []plan.Limit, problem plan.Problem) {
	var texts []string
	for _, e := range c.budget.Exceeded() {
		limit := limitOf(e.Limit)
		limits, texts = append(limits, limit), append(texts, fmt.Sprintf("%v (%s)", e, limit.Field()))
	}
	if c.tooManyObjects.Reason != "" {
		limits, texts = append(limits, plan.ObjectsLimit), append(texts, c.tooManyObjects.Message)
	}
	return limits, plan.Problem{Reason: plan.LimitExceeded, Message: strings.Join(texts, "; ") + "; the instance is not changed"}
}

// unchanged leaves the instance as it is. A user who can write its fields could otherwise choose which of its objects
// are created: a workload without the policy that comes after it, for example.
func (c *composition) unchanged(limits []plan.Limit, problem plan.Problem) plan.Desired {
	status, _, _ := unstructured.NestedMap(c.facts.Instance.Object, "status")
	return plan.Desired{
		Problem: problem, Exceeded: limits, Cost: c.desired.Cost, Status: status, Needs: c.desired.Needs,
		NoOwnerReferences: c.desired.NoOwnerReferences, RequeueAfter: exceededRetryInterval,
	}
}

// exceededRetryInterval is when an instance that exceeds a limit is composed again without an event: earlier rounds
// of a reconcile may have created objects that make the next one cheaper.
const exceededRetryInterval = time.Minute

// limitOf is the limit of an instance that a budget of expressions enforces.
func limitOf(budget string) plan.Limit {
	if budget == expr.BudgetBytes {
		return plan.BytesLimit
	}
	return plan.CostLimit
}
