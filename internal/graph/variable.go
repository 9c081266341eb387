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

// MaxVariables bounds the bytes of all variables of one instance together, counted
// roughly: about what an object may have. One that holds another several times, and so on,
// could have any size.
const MaxVariables = 1 << 20

// noObject is why a variable can't have what only objects have.
const noObject = "has no meaning for a variable, which makes no object"

// decodeVariable reads what a variable computes.
func (c *compilation) decodeVariable(d *draft) {
	d.Variable = true
	if err := utiljson.Unmarshal(d.source.Value.Raw, &d.value); err != nil {
		c.breakf(d, d.at.Field("value"), "is not a value: %v", err)
		return
	}
	if len(d.source.ForEach) > 0 {
		c.problems.Addf(d.at.Field("forEach"), "is for objects to keep; a variable that is a list is one expression, such as ${schema.spec.zones.map(z, z + '-a')}")
	}
	if len(d.source.ReadyWhen) > 0 {
		c.problems.Addf(d.at.Field("readyWhen"), "has no meaning for a variable, which is ready when what it reads is; includeWhen says whether it is there, waitFor what it waits for")
	}
}

// declareVariables compiles what variables compute, those first that others read, and
// makes them names that expressions may read. Their types are those of what they render.
func declareVariables(c *compilation) {
	if c.env == nil {
		return
	}
	left := map[string][]string{} // what each reads of the others
	isVariable := func(name string) bool { d := c.draftOf(name); return d != nil && d.Variable }
	for _, d := range c.drafts {
		if d.Variable && c.declarable(d) {
			left[d.ID] = c.env.Roots(d.value, isVariable)
		}
	}
	for len(left) > 0 {
		layer := c.nextVariables(left)
		untyped := len(layer) == 0
		if untyped { // a circle, which is told when all dependencies are known
			layer = c.draftsOf(slices.Sorted(maps.Keys(left)))
			c.declare(layer)
		}
		for _, d := range layer {
			c.compileVariable(d)
			delete(left, d.ID)
		}
		if !untyped {
			c.declare(layer)
		}
	}
}

// nextVariables lists, sorted, those that read none of what is left.
func (c *compilation) nextVariables(left map[string][]string) []*draft {
	var out []string
	for _, id := range slices.Sorted(maps.Keys(left)) {
		waits := slices.ContainsFunc(left[id], func(other string) bool { _, is := left[other]; return is })
		if !waits {
			out = append(out, id)
		}
	}
	return c.draftsOf(out)
}

func (c *compilation) draftsOf(ids []string) []*draft {
	out := make([]*draft, len(ids))
	for i, id := range ids {
		out[i] = c.draftOf(id)
	}
	return out
}

func (c *compilation) compileVariable(d *draft) {
	if d.broken {
		return
	}
	template, problems := c.env.Template(d.value, nil, d.documentPath())
	c.problems.Add(problems...)
	if template == nil {
		return
	}
	c.problems.Add(template.Valueless()...)
	d.template = template
	d.refs = append(d.refs, template.Refs()...)
}

// declare makes variables names. What reads one that is wrong is wrong only because of
// that.
func (c *compilation) declare(variables []*draft) {
	if len(variables) == 0 {
		return
	}
	declarations := make([]expr.Declaration, len(variables))
	for i, d := range variables {
		declarations[i] = expr.Declaration{Name: d.ID, Value: d.template}
	}
	env, err := c.env.With(declarations...)
	if err != nil {
		c.problems.Addf("spec", "the variables of this definition can't be typed: %v", err)
		return
	}
	c.env, c.graph.env = env, env
}

// variable computes a node that is a value. Others see it as soon as it can be computed,
// and go by it when all that it reads is ready: it is as if each had its expressions in
// place of its name.
func (c *composition) variable(n *Node, out *plan.Node) {
	if len(out.Waits) > 0 {
		c.passOn(out.Waits)
		return
	}
	out.Waits = distinct(c.waitFor(n))
	if len(out.Waits) > 0 {
		c.passOn(out.Waits)
		return
	}
	unready := c.missing(n, n.refs)
	value, used, err := n.template.RenderWithin(c.vars, c.room)
	var large *expr.TooLarge
	switch {
	case errors.As(err, &large):
		out.Waits = []plan.Wait{noValue(n, fmt.Sprintf("%s: the variables of an instance may have %d bytes together (MaxVariables), and with this they have more", large.At, MaxVariables))}
	case err != nil && len(unready) == 0:
		out.Waits = distinct(c.graph.waitsOf(n, err))
	case err != nil:
		out.Waits = distinct(unready)
	case value == expr.Absent:
		out.Waits = []plan.Wait{noValue(n, "value resolves to nothing")}
	default:
		out.Waits = distinct(unready)
		c.room -= used
		c.vars[n.ID] = value
	}
	c.passOn(out.Waits)
	out.Ready = len(out.Waits) == 0
}

func noValue(n *Node, why string) plan.Wait {
	return plan.Wait{Node: n.ID, Reason: plan.EvaluationFailed, On: plan.UnnamedValue, Detail: why}
}
