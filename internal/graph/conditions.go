package graph

import (
	"errors"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
)

// builtinConditions are the dialect's own conditions. The author's conditions may read them.
var builtinConditions = []string{v1alpha1.InstanceReady, v1alpha1.InstanceManaged, v1alpha1.InstanceGraphResolved, v1alpha1.InstanceResourcesReady}

// compileConditions compiles the author's conditions. They replace the dialect's own.
func (c *compilation) compileConditions(value any, at object.Path) {
	list, ok := value.([]any)
	if !ok {
		c.problems.Addf(at, "is not a list of expressions")
		return
	}
	var sources []string
	for i, item := range list {
		source, ok := item.(string)
		if !ok {
			c.problems.Addf(at.Index(i), "is not an expression")
			return
		}
		sources = append(sources, source)
	}
	if len(sources) == 0 {
		return
	}
	builtin := builtinConditions
	if c.graph.embedded != nil {
		builtin = nil // the conditions of the host do not exist yet
	}
	conditions, problems := c.env.Conditions(sources, instanceVariable, builtin, at)
	c.problems.Add(problems...)
	c.graph.conditions = conditions
}

func (c *composition) evaluateConditions(own condition.Set) plan.AuthorConditions {
	out := plan.AuthorConditions{Types: c.graph.conditions.Types()}
	vars := maps.Clone(c.vars)
	instance := instanceView(c.facts.Instance)
	instance["status"] = map[string]any{report.ConditionsField: own.Unstructured()}
	vars[instanceVariable] = instance
	found, missing := c.graph.conditions.Eval(c.budget, vars)
	out.RequeueAfter = c.untilNextChange()
	for _, err := range missing {
		var pending *expr.Pending
		var needs *expr.NeedsSkipped
		if out.Partial = true; errors.As(err, &pending) || errors.As(err, &needs) {
			continue
		}
		text := err.Error()
		if c.graph.mayReadSecret(c.graph.conditions.Refs()) {
			text = redactedText(err)
		}
		out.Problems = append(out.Problems, text)
	}
	made := map[string]int{}
	for _, f := range found {
		made[f.Type]++
	}
	for _, f := range found {
		if n := made[f.Type]; n != 1 {
			if n > 1 {
				out.Partial = true
				out.Problems = append(out.Problems, fmt.Sprintf("%d conditions are of type %q; none of them is set", n, f.Type))
				made[f.Type] = 0 // reported once
			}
			continue
		}
		out.Conditions = append(out.Conditions, v1alpha1.Condition{Type: f.Type, Status: metav1.ConditionStatus(f.Status), Reason: f.Reason, Message: f.Message})
	}
	return out
}
