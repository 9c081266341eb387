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

// readable are the dialect's own conditions, which those of the author may read.
var readable = []string{v1alpha1.InstanceReady, v1alpha1.InstanceManaged, v1alpha1.InstanceGraphResolved, v1alpha1.InstanceResourcesReady}

// compileConditions compiles the conditions that take the place of the dialect's own.
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
	own := readable
	if c.graph.guest != nil {
		own = nil // its host has conditions, and they aren't there yet
	}
	conditions, problems := c.env.Conditions(sources, instanceVariable, own, at)
	c.problems.Add(problems...)
	c.graph.conditions = conditions
}

// author says what the author's conditions say, given the dialect's own.
func (c *composition) author(own condition.Set) plan.AuthorConditions {
	said := plan.AuthorConditions{Types: c.graph.conditions.Types()}
	vars := maps.Clone(c.vars)
	instance := instanceView(c.facts.Instance)
	instance["status"] = map[string]any{report.ConditionsField: own.Unstructured()}
	vars[instanceVariable] = instance
	found, missing := c.graph.conditions.Eval(vars)
	for _, err := range missing {
		var pending *expr.Pending
		if said.Partial = true; errors.As(err, &pending) {
			continue
		}
		text := err.Error()
		if c.graph.conceals(c.graph.conditions.Refs()) {
			text = "a condition has no value " + hidden
		}
		said.Problems = append(said.Problems, text)
	}
	made := map[string]int{}
	for _, f := range found {
		made[f.Type]++
	}
	for _, f := range found {
		if n := made[f.Type]; n != 1 {
			if n > 1 {
				said.Partial = true
				said.Problems = append(said.Problems, fmt.Sprintf("%d conditions are of type %q; none of them is told", n, f.Type))
				made[f.Type] = 0 // it is told once
			}
			continue
		}
		said.Conditions = append(said.Conditions, v1alpha1.Condition{Type: f.Type, Status: metav1.ConditionStatus(f.Status), Reason: f.Reason, Message: f.Message})
	}
	return said
}
