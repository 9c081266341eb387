package graph

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
)

// Compose is ComposeWithin without a time limit.
func (g *Graph) Compose(facts plan.Facts) plan.Desired {
	desired, _ := g.ComposeWithin(func() error { return nil }, facts) // there is no other error
	return desired
}

// ComposeWithin computes the desired objects of an instance, as far as the facts let its expressions resolve, and
// within their limits. It is pure; more facts resolve more expressions. Once ended returns an error, such as a
// context's, it returns this error.
func (g *Graph) ComposeWithin(ended func() error, facts plan.Facts) (plan.Desired, error) {
	return g.compose(ended, nil, facts)
}

// RecordBranches composes an instance again, and has branches record what its conditional expressions take.
// Conditions of authors and of propagateWhen are not evaluated.
func (g *Graph) RecordBranches(branches *expr.Branches, facts plan.Facts) {
	_, _ = g.compose(func() error { return nil }, branches, facts) // the reconcile has the result
}

// minUntilChange bounds how often time alone has an instance reconciled: an expression can compare the time with thousands
// of moments. Beyond maxUntilChange it is reconciled to look again: a Duration ends after three centuries.
const (
	minUntilChange = time.Second
	maxUntilChange = 365 * 24 * time.Hour
)

// untilNextChange is after how long to evaluate expressions that read the time again; 0 for never.
func (c *composition) untilNextChange() time.Duration {
	next := c.budget.NextChange()
	if next.IsZero() {
		return 0
	}
	until := min(next.Sub(c.facts.Now), maxUntilChange) + time.Millisecond // timers may be early
	return max(until, minUntilChange)
}

func (g *Graph) compose(ended func() error, branches *expr.Branches, facts plan.Facts) (plan.Desired, error) {
	facts.Limits = facts.Limits.WithDefaults()
	c := &composition{
		budget:         expr.NewBudget(ended, facts.Limits.Cost, facts.Cost, facts.Limits.Bytes),
		graph:          g,
		facts:          facts,
		nodes:          make(map[string]*plan.Node, len(g.Nodes)),
		vars:           make(map[string]any, len(g.Nodes)+1),
		partial:        map[string]bool{},
		owned:          map[string]map[types.NamespacedName]*unstructured.Unstructured{},
		selected:       map[types.UID]plan.Progress{},
		propagated:     g.propagated(facts.Instance),
		variableBudget: MaxVariables,
		desired:        plan.Desired{Nodes: make([]plan.Node, 0, len(g.Nodes)), NoOwnerReferences: g.NoOwnerReferences},
	}
	c.budget.Record(branches)
	c.budget.SetTime(facts.Now)
	if g.standalone == nil {
		c.vars[instanceVariable] = instanceView(facts.Instance)
	}
	for _, n := range g.Nodes {
		node, parts := c.composeNode(n)
		if node.SkipMessage != "" {
			c.vars[n.ID] = expr.Skipped
		}
		c.nodes[n.ID] = &node
		c.desired.Nodes = append(c.desired.Nodes, parts...)
	}
	c.desired.Status = c.renderStatus()
	if g.Listed > 0 {
		if c.desired.Status == nil {
			c.desired.Status = map[string]any{}
		}
		c.desired.Status[report.ManagedField] = c.managed()
	}
	if g.conditions != nil {
		c.desired.AuthorConditions = c.evaluateConditions
	}
	c.desired.Cost, c.desired.RequeueAfter = c.budget.Cost(), c.untilNextChange()
	if limits, problem := c.exceededLimits(); len(limits) > 0 {
		return c.unchanged(limits, problem), ended()
	}
	return c.desired, ended()
}

// composition is the state of one Compose, which visits the nodes in topological order.
type composition struct {
	graph *Graph
	facts plan.Facts
	// nodes are the results by node id; a collection has one for all its items.
	nodes map[string]*plan.Node
	vars  map[string]any
	// partial are the collections that lack items.
	partial map[string]bool
	// owned indexes the existing objects of nodes that have several; see ownedObject.
	owned map[string]map[types.NamespacedName]*unstructured.Unstructured
	// selected are the objects of others that selectors select.
	selected map[types.UID]plan.Progress
	// budget bounds all evaluations together, and objects counts the nodes with an object.
	budget         *expr.Budget
	objects        int
	tooManyObjects plan.Problem
	// propagated are the labels and annotations of the instance for its children, by field of the metadata.
	propagated map[string]map[string]any
	// variableBudget is how many bytes the remaining variables may take together.
	variableBudget int
	desired        plan.Desired
}

// instanceView is the instance without its status. It has labels and annotations, as every instance does once
// the engine has written its own: their absence would depend on when the instance is reconciled.
func instanceView(instance *unstructured.Unstructured) map[string]any {
	view, metadata := maps.Clone(instance.Object), map[string]any{"labels": map[string]any{}, "annotations": map[string]any{}}
	delete(view, "status")
	if given, ok := view["metadata"].(map[string]any); ok {
		maps.Copy(metadata, given)
	}
	view["metadata"] = metadata
	return view
}

// composeNode computes one node: other nodes depend on node; parts is what is applied, one part for each item of a
// collection.
func (c *composition) composeNode(n *Node) (node plan.Node, parts []plan.Node) {
	node = plan.Node{
		ID: n.ID, Kind: n.Kind, External: n.External, AdoptUnowned: n.adoptUnowned, RefuseConflicts: n.refuseConflicts, Drift: n.drift,
		Recreate: n.recreate, Sensitive: n.mayHoldSecret, SecretFields: n.secretFields,
		Variable: n.Variable, Layer: n.Layer, DependsOn: n.deletionDependencies, DeleteAfter: n.DeleteAfter, OnDelete: n.OnDelete,
	}
	if c.evaluateIncludeWhen(n, &node); node.SkipMessage != "" {
		return node, []plan.Node{node}
	}
	switch {
	case n.Variable:
		c.composeVariable(n, &node)
	case n.forEach != nil:
		return c.composeCollection(n, node)
	case n.Collection:
		c.composeSelection(n, &node)
	default:
		c.composeSingle(n, &node)
	}
	return node, []plan.Node{node}
}

// composeSingle computes a node with one object. It finds the observed object by the node's id first, so other nodes
// can read it even while the template cannot be rendered.
func (c *composition) composeSingle(n *Node, out *plan.Node) {
	if !n.External {
		out.Observed = c.facts.SoleObject(n.ID, n.Kind)
	}
	if len(out.Waits) == 0 {
		out.Waits = c.waitsBeforeRender(n)
	}
	if len(out.Waits) == 0 {
		c.render(n, c.vars, out)
	}
	if out.SkipMessage != "" {
		return
	}
	if !n.External {
		c.objects++
	}
	c.addWaitDetails(out.Waits)
	if out.Observed != nil && !n.Patch {
		c.vars[n.ID] = out.Observed.Object
		out.Ready, out.Unready = c.readiness(n, n.ID, out.Observed)
	}
}

func (c *composition) waitsBeforeRender(n *Node) []plan.Wait {
	return distinctWaits(slices.Concat(c.waitsForFields(n), c.waitsForDependencies(n, n.refs), c.noteKind(n)))
}

// render evaluates the node's template with the given variables. It sets out.Object, or
// out.Waits if something is missing or invalid, or skips the node.
func (c *composition) render(n *Node, vars map[string]any, out *plan.Node) {
	document, isComplete := c.renderTemplate(n, vars, out)
	if !isComplete {
		return
	}
	rendered := &unstructured.Unstructured{Object: document.(map[string]any)}
	isEmbedded := c.graph.embedded != nil
	defaultsNamespace := n.Namespaced || !n.KindKnown
	if isEmbedded {
		defaultsNamespace = n.External && n.namespaceUnset
	}
	if rendered.GetNamespace() == "" && defaultsNamespace {
		rendered.SetNamespace(c.facts.Instance.GetNamespace())
	}
	if field, why := c.invalidName(n, rendered); why != "" {
		out.Waits = []plan.Wait{{Node: n.ID, Reason: plan.EvaluationFailed, On: "metadata." + field, Detail: why}}
		return
	}
	metadata, _ := rendered.Object["metadata"].(map[string]any)
	if keys := reservedKeys(metadata); len(keys) > 0 {
		// The key may be computed from a Secret: the message names only the field.
		out.Waits = []plan.Wait{{Node: n.ID, Reason: plan.EvaluationFailed, On: "metadata." + keys[0].field,
			Detail: "it has a key with a prefix that is reserved for Espalier"}}
		return
	}
	if n.External {
		c.lookUpReference(n, rendered, out)
		if n.Patch {
			n.contribute(rendered, out)
		}
		return
	}
	c.addPropagated(metadata)
	c.setPropagation(n, vars, out)
	out.Object = rendered
	switch {
	case !isEmbedded:
		out.Observed = c.ownedObject(n, rendered.GetNamespace(), rendered.GetName())
	case !matchesRenderedName(rendered, out.Observed):
		out.Observed = nil
	}
}

// ownedObject returns nil if the node has no object of the name. A collection calls it for each of its items, so its
// objects are indexed.
func (c *composition) ownedObject(n *Node, namespace, name string) *unstructured.Unstructured {
	if len(c.facts.Owned[n.ID]) < 2 {
		return c.facts.Object(n.ID, n.Kind, namespace, name)
	}
	index, ok := c.owned[n.ID]
	if !ok {
		index = c.facts.Objects(n.ID, n.Kind)
		c.owned[n.ID] = index
	}
	return index[types.NamespacedName{Namespace: namespace, Name: name}]
}

// lookUpReference sets the object that an external reference names, or adds a Need for it
// and waits.
func (c *composition) lookUpReference(n *Node, ref *unstructured.Unstructured, out *plan.Node) {
	need := plan.Need{Kind: n.Kind, Namespace: ref.GetNamespace(), Name: ref.GetName()}
	c.desired.Needs = append(c.desired.Needs, need)
	found, isKnown := c.facts.External[need]
	wait := plan.Wait{Node: n.ID, Reason: plan.WaitingForExternal, On: n.describeReference(ref)}
	switch {
	case found.Object != nil:
		out.Object, out.Observed = ref, found.Object
		return
	case found.Unreadable != nil:
		wait.Reason, wait.Detail = found.Unreadable.Reason, found.Unreadable.Message
	case !isKnown:
		wait.Reason, wait.Detail = plan.Syncing, "being looked up"
	}
	out.Waits = []plan.Wait{wait}
}

func (n *Node) describeReference(ref *unstructured.Unstructured) string {
	if n.readsSecret {
		return n.Kind.Kind + " " + redacted
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
