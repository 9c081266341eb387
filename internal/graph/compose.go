package graph

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
)

// Compose says what an instance wants, as far as the facts let its expressions
// resolve. It is a pure function; with more facts, more resolves.
func (g *Graph) Compose(facts plan.Facts) plan.Desired {
	c := &composition{
		graph:   g,
		facts:   facts,
		nodes:   make(map[string]*plan.Node, len(g.Nodes)),
		vars:    make(map[string]any, len(g.Nodes)+1),
		room:    MaxVariables,
		desired: plan.Desired{Nodes: make([]plan.Node, 0, len(g.Nodes)), Unreferred: g.Unreferred},
	}
	c.vars[instanceVariable] = instanceView(facts.Instance)
	for _, n := range g.Nodes {
		whole, parts := c.compose(n)
		c.nodes[n.ID] = &whole
		c.desired.Nodes = append(c.desired.Nodes, parts...)
	}
	c.desired.Status = c.status()
	if g.conditions != nil {
		c.desired.AuthorConditions = c.author
	}
	return c.desired
}

// composition is one turn over the graph, in topological order.
type composition struct {
	graph *Graph
	facts plan.Facts
	// nodes are what the nodes want, each as a whole.
	nodes map[string]*plan.Node
	vars  map[string]any
	// room is how many bytes of variables there may be still.
	room    int
	desired plan.Desired
}

// instanceView is the instance without its status.
func instanceView(instance *unstructured.Unstructured) map[string]any {
	view := make(map[string]any, len(instance.Object))
	for k, v := range instance.Object {
		if k != "status" {
			view[k] = v
		}
	}
	return view
}

// compose says what one node wants, as a whole and in its parts, which are the items
// of a collection.
func (c *composition) compose(n *Node) (whole plan.Node, parts []plan.Node) {
	whole = plan.Node{
		ID: n.ID, Kind: n.Kind, External: n.External, AdoptUnowned: n.adopt, Refuses: n.refuse, Drift: n.drift, Recreate: n.recreate, Conceals: n.conceals,
		Variable: n.Variable, Layer: n.Layer, DependsOn: n.under, DeleteAfter: n.DeleteAfter, OnDelete: n.OnDelete,
	}
	if c.skip(n, &whole); whole.Skipped != "" {
		return whole, []plan.Node{whole}
	}
	switch {
	case n.Variable:
		c.variable(n, &whole)
	case n.items != nil:
		return c.collect(n, whole)
	case n.Collection:
		c.selected(n, &whole)
	default:
		c.single(n, &whole)
	}
	return whole, []plan.Node{whole}
}

// single says what a node of one object wants. Its observed object is looked for
// first, by the node alone: it stays visible to others even while it can't be rendered.
func (c *composition) single(n *Node, out *plan.Node) {
	if !n.External {
		out.Observed = c.facts.SoleObject(n.ID, n.Kind)
	}
	if len(out.Waits) == 0 {
		out.Waits = c.unmet(n)
	}
	if len(out.Waits) == 0 {
		c.render(n, c.vars, out)
	}
	c.passOn(out.Waits)
	if out.Observed != nil {
		c.vars[n.ID] = out.Observed.Object
		out.Ready, out.Unready = c.readiness(n, n.ID, out.Observed)
	}
}

// unmet is what the node waits for before any of it is rendered.
func (c *composition) unmet(n *Node) []plan.Wait {
	return distinct(append(c.waitFor(n), c.missing(n, n.refs)...))
}

// render resolves the node's document with the given variables, or says what it waits
// for.
func (c *composition) render(n *Node, vars map[string]any, out *plan.Node) {
	document, err := n.template.Render(vars)
	if err != nil {
		out.Waits = distinct(c.graph.waitsOf(n, err))
		return
	}
	rendered := &unstructured.Unstructured{Object: document.(map[string]any)}
	guest := c.graph.guest != nil
	home := n.Namespaced || !n.Known
	if guest {
		home = n.External && n.unplaced
	}
	if rendered.GetNamespace() == "" && home {
		rendered.SetNamespace(c.facts.Instance.GetNamespace())
	}
	if field, why := c.misnamed(n, rendered); why != "" {
		out.Waits = []plan.Wait{{Node: n.ID, Reason: plan.EvaluationFailed, On: "metadata." + field, Detail: why}}
		return
	}
	metadata, _ := rendered.Object["metadata"].(map[string]any)
	if keys := reservedKeys(metadata); len(keys) > 0 {
		// The name of a key can be computed as well: only the field is told.
		out.Waits = []plan.Wait{{Node: n.ID, Reason: plan.EvaluationFailed, On: "metadata." + keys[0].field, Detail: "it has a key whose prefix is reserved for the engine"}}
		return
	}
	if n.External {
		c.external(n, rendered, out)
		return
	}
	out.Object = rendered
	switch {
	case !guest:
		out.Observed = c.facts.Object(n.ID, n.Kind, rendered.GetNamespace(), rendered.GetName())
	case !same(rendered, out.Observed):
		out.Observed = nil
	}
}

// external looks up what the reference names, or asks for it to be looked up.
func (c *composition) external(n *Node, ref *unstructured.Unstructured, out *plan.Node) {
	need := plan.Need{Kind: n.Kind, Namespace: ref.GetNamespace(), Name: ref.GetName()}
	c.desired.Needs = append(c.desired.Needs, need)
	look, looked := c.facts.External[need]
	wait := plan.Wait{Node: n.ID, Reason: plan.WaitingForExternal, On: n.reference(ref)}
	switch {
	case look.Object != nil:
		out.Object, out.Observed = ref, look.Object
		return
	case look.Unreadable != nil:
		wait.Reason, wait.Detail = look.Unreadable.Reason, look.Unreadable.Message
	case !looked:
		wait.Reason, wait.Detail = plan.Syncing, "being looked up"
	}
	out.Waits = []plan.Wait{wait}
}

// reference names what is looked up by its name; that may be from a Secret.
func (n *Node) reference(ref *unstructured.Unstructured) string {
	if n.derived {
		return n.Kind.Kind + " " + hidden
	}
	return object.KeyOf(ref).String()
}

func (g *Graph) node(id string) *Node {
	for _, n := range g.Nodes {
		if n.ID == id {
			return n
		}
	}
	return nil
}
