package graph

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// MaxVariables bounds the approximate size of all variables of one instance together, in
// bytes: about the size of an object. Without it, variables that contain other variables
// several times could have any size.
const MaxVariables = 1 << 20

const noObjectProblem = "does not apply to a variable, which has no object"

// The value of a variable may contain expressions.
func (c *compilation) decodeVariable(d *draft) {
	d.Variable = true
	if err := utiljson.Unmarshal(d.source.Value.Raw, &d.value); err != nil {
		c.breakf(d, d.documentPath(), "is not a value: %v", err)
		return
	}
	if !c.checkDepth(d.value, d.documentPath()) {
		d.broken = true
		return
	}
	if c.graph.standalone != nil {
		d.Collection = len(d.source.ForEach) > 0
		return
	}
	if len(d.source.ForEach) > 0 {
		c.problems.Addf(d.at.Field("forEach"), "requires a template; a variable that is a list is one expression, such as ${schema.spec.zones.map(z, z + '-a')}")
	}
	if len(d.source.ReadyWhen) > 0 {
		c.problems.Addf(d.at.Field("readyWhen"),
			"does not apply to a variable, which is ready when its dependencies are; use includeWhen to skip it, or waitFor to wait for fields")
	}
}

// declareVariables compiles the variables in dependency order and declares them as names that expressions may read.
// The type of a variable is the type of its rendered value.
func declareVariables(c *compilation) {
	if c.env == nil {
		return
	}
	left := map[string][]string{} // the other variables that each reads
	isVariable := func(name string) bool { d := c.draftByID(name); return d != nil && d.Variable }
	for _, d := range c.drafts {
		if d.Variable && c.declarable(d) {
			left[d.ID] = c.envOf(d).ReferencedNames([]any{d.value, d.listsAndConditions()}, isVariable)
		}
	}
	for len(left) > 0 {
		layer := c.nextVariables(left)
		untyped := len(layer) == 0
		if untyped { // a cycle, which connectDependencies reports
			layer = c.draftsByID(slices.Sorted(maps.Keys(left)))
			c.declareVariableDrafts(layer)
		}
		for _, d := range layer {
			c.compileVariable(d)
			delete(left, d.ID)
		}
		if !untyped {
			c.declareVariableDrafts(layer)
		}
	}
}

// listsAndConditions are the lists of the iterators, and includeWhen.
func (d *draft) listsAndConditions() []any {
	var out []any
	for _, entry := range d.source.ForEach {
		for _, list := range entry {
			out = append(out, list)
		}
	}
	for _, condition := range d.source.IncludeWhen {
		out = append(out, condition)
	}
	return out
}

// nextVariables lists, sorted, the variables that read no other one in left.
func (c *compilation) nextVariables(left map[string][]string) []*draft {
	var out []string
	for _, id := range slices.Sorted(maps.Keys(left)) {
		waits := slices.ContainsFunc(left[id], func(other string) bool { _, is := left[other]; return is })
		if !waits {
			out = append(out, id)
		}
	}
	return c.draftsByID(out)
}

func (c *compilation) draftsByID(ids []string) []*draft {
	out := make([]*draft, len(ids))
	for i, id := range ids {
		out[i] = c.draftByID(id)
	}
	return out
}

func (c *compilation) compileVariable(d *draft) {
	if d.broken {
		return
	}
	d.env = c.envOf(d)
	c.compileForEach(d)
	template, problems := d.env.Template(d.value, nil, d.documentPath())
	c.problems.Add(problems...)
	if template == nil {
		return
	}
	c.problems.Add(template.RequireValue()...)
	d.template = template
	d.refs = append(d.refs, template.Refs()...)
}

// declareVariableDrafts declares variables. An invalid variable is declared untyped, so its readers report no further
// problem.
func (c *compilation) declareVariableDrafts(variables []*draft) {
	if len(variables) == 0 {
		return
	}
	declarations := make([]expr.Declaration, len(variables))
	for i, d := range variables {
		declarations[i] = expr.Declaration{Name: d.ID, Value: d.template, List: d.Collection}
	}
	env, err := c.env.With(declarations...)
	if err != nil {
		c.problems.Addf("spec", "the variables of this definition cannot be declared in CEL: %v", err)
		return
	}
	c.env, c.graph.scope = env, env.Scope
}

// composeVariable computes a variable. Other nodes can read it as soon as it has a value,
// but it is ready only when all its dependencies are: as if each reader had the variable's
// expressions in place of its name.
func (c *composition) composeVariable(n *Node, out *plan.Node) {
	if len(out.Waits) > 0 {
		c.addWaitDetails(out.Waits)
		return
	}
	out.Waits = distinctWaits(c.waitsForFields(n))
	if len(out.Waits) > 0 {
		c.addWaitDetails(out.Waits)
		return
	}
	unready := c.waitsForDependencies(n, n.refs)
	var turns [][]any
	if n.forEach != nil {
		if out.Waits = distinctWaits(unready); len(unready) == 0 {
			turns, out.Waits = c.turnsOf(n, out)
		}
		if len(out.Waits) > 0 || out.SkipMessage != "" {
			c.addWaitDetails(out.Waits)
			return
		}
	}
	render := func(vars map[string]any) (any, error) {
		value, _, err := n.renderValue(c.budget, vars, turns, MaxVariables)
		return value, err
	}
	value, used, err := n.renderValue(c.budget, c.vars, turns, c.variableBudget)
	var large *expr.TooLarge
	var needs *expr.NeedsSkipped
	switch {
	case errors.As(err, &needs) && len(unready) == 0:
		if out.Waits = c.waitsForBranches(n, n.template.Refs(), c.vars, render); len(out.Waits) == 0 {
			c.skipWith(out, needs.Name)
			return
		}
	case errors.As(err, &large):
		out.Waits = []plan.Wait{noValueWait(n, fmt.Sprintf("%s: with this value the variables of the instance exceed the limit of %d bytes (MaxVariables)",
			large.At, MaxVariables))}
	case err != nil && len(unready) == 0:
		out.Waits = distinctWaits(c.graph.waitsForError(n, err))
	case err != nil:
		out.Waits = distinctWaits(unready)
	case value == expr.Absent:
		out.Waits = []plan.Wait{noValueWait(n, "value resolves to nothing")}
	default:
		unready = append(unready, c.waitsForBranches(n, n.template.Refs(), c.vars, render)...)
		out.Waits = distinctWaits(unready)
		c.variableBudget -= used
		c.vars[n.ID] = value
		out.Waits = append(out.Waits, c.waitsForReadyWhen(n, value)...)
	}
	c.addWaitDetails(out.Waits)
	out.Ready = len(out.Waits) == 0
}

// turnsOf are the values of the iterators for each item of a variable with forEach.
func (c *composition) turnsOf(n *Node, out *plan.Node) (included [][]any, waits []plan.Wait) {
	turns, waits, refused := c.iteratorValues(n, out)
	if refused.Reason != "" {
		waits = []plan.Wait{noValueWait(n, refused.Message)}
	}
	vars := maps.Clone(c.vars)
	for _, values := range turns {
		n.forEach.bindIterators(vars, values)
		it := item{}
		if c.isIncluded(n, &it, vars) {
			included = append(included, values)
		}
		waits = append(waits, it.waits...)
	}
	return included, distinctWaits(waits)
}

// renderValue renders the value of a variable, or the list of its values for the turns of forEach. It returns the size.
func (n *Node) renderValue(budget *expr.Budget, vars map[string]any, turns [][]any, limit int) (value any, used int, err error) {
	if n.forEach == nil {
		return n.template.RenderWithLimit(budget, vars, limit)
	}
	list, vars := make([]any, 0, len(turns)), maps.Clone(vars)
	for _, values := range turns {
		n.forEach.bindIterators(vars, values)
		item, size, err := n.template.RenderWithLimit(budget, vars, limit-used)
		if err != nil {
			return nil, used, err
		}
		if used += size; item != expr.Absent {
			list = append(list, item)
		}
	}
	return list, used, nil
}

// waitsForReadyWhen are the conditions of a Graph's variable that its value, or an item of its list, does not fulfil. Other
// nodes read the value nevertheless.
func (c *composition) waitsForReadyWhen(n *Node, value any) (waits []plan.Wait) {
	items, isList := value.([]any)
	if !isList || n.forEach == nil {
		items = []any{value}
	}
	for _, item := range items {
		for _, p := range n.readyWhen {
			if why := conditionProblem(c.budget, p, map[string]any{n.readyWhenVariable(): item}, n.readsSecret); why != "" {
				return []plan.Wait{{Node: n.ID, Reason: plan.WaitingForReadiness, On: "readyWhen", Detail: why}}
			}
		}
	}
	return nil
}

func noValueWait(n *Node, why string) plan.Wait {
	return plan.Wait{Node: n.ID, Reason: plan.EvaluationFailed, On: plan.UnnamedValue, Detail: why}
}
