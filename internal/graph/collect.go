package graph

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
)

// composeCollection computes the desired items of a collection. While the items are not
// known the collection is a single node that waits. After that each item is a node of its
// own and waits on its own. Other nodes read the existing items as a list.
func (c *composition) composeCollection(n *Node, node plan.Node) (plan.Node, []plan.Node) {
	if _, unreadable := c.facts.UnreadableKind(n.Kind); unreadable && !n.Patch {
		return node, []plan.Node{node} // which items exist is unknown
	}
	if len(node.Waits) == 0 {
		node.Waits = c.waitsBeforeRender(n)
	}
	var found []item
	if len(node.Waits) == 0 {
		found, node.Waits, node.Refusal = c.findItems(n, &node)
	}
	if node.SkipMessage != "" {
		return node, []plan.Node{node}
	}
	c.addWaitDetails(node.Waits)
	if len(node.Waits) > 0 || node.Refusal.Reason != "" {
		c.partial[n.ID] = true
		c.setCollectionVariable(n, &node, c.observedItems(n))
		node.Unready.Message = "its items are not known yet"
		return node, []plan.Node{node}
	}
	parts := make([]plan.Node, 0, len(found))
	var existing []*unstructured.Unstructured
	ready, left := 0, len(found)
	vars := maps.Clone(c.vars)
	for i, it := range found {
		n.forEach.bindIterators(vars, it.values)
		part := c.composeItem(n, node, it, inventory.Item{Index: i, Size: len(found)}, vars)
		if part.Observed != nil {
			existing = append(existing, part.Observed)
		}
		if part.Ready {
			ready++
		}
		if part.SkipMessage != "" {
			left--
		}
		parts = append(parts, part)
	}
	node.Ready, c.partial[n.ID] = ready == left, len(existing) < left
	node.Unready.Message = fmt.Sprintf("%d of %s ready", ready, diag.Counted(left, "item is", "items are"))
	if left == 0 || len(existing) > 0 {
		c.setCollectionVariable(n, &node, existing)
	}
	if len(found) == 0 {
		none := node
		none.SkipMessage = "forEach has no items"
		return node, []plan.Node{none}
	}
	return node, parts
}

// setCollectionVariable sets the variable of a collection to the list of its objects. It
// sets nothing if the list is empty because the items are not known.
func (c *composition) setCollectionVariable(n *Node, node *plan.Node, existing []*unstructured.Unstructured) {
	if (len(node.Waits) > 0 || node.Refusal.Reason != "") && len(existing) == 0 {
		return
	}
	list := make([]any, len(existing))
	for i, o := range existing {
		list[i] = o.Object
	}
	c.vars[n.ID] = list
}

// observedItems returns the existing objects in the order of their items.
func (c *composition) observedItems(n *Node) []*unstructured.Unstructured {
	out := slices.DeleteFunc(slices.Clone(c.facts.Owned[n.ID]), func(o *unstructured.Unstructured) bool {
		return o.GroupVersionKind() != n.Kind
	})
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(itemIndex(a), itemIndex(b)), object.KeyOf(a).Compare(object.KeyOf(b)))
	})
	return out
}

func itemIndex(o *unstructured.Unstructured) int {
	if item := inventory.ItemOf(o); item != nil {
		return item.Index
	}
	return MaxItems
}

// item is one combination of the values of a collection's iterators.
type item struct {
	// values are in the order of the iterators.
	values []any
	// An empty name is not known yet: waits says why the name, or whether the item is included, is unknown.
	namespace, name string
	waits           []plan.Wait
}

// findItems returns the items of a collection: one for each combination of iterator
// values that no includeWhen condition excludes. It skips the collection if a list needs a skipped node, and leaves
// out an item whose name does.
func (c *composition) findItems(n *Node, out *plan.Node) (found []item, waits []plan.Wait, refused plan.Problem) {
	turns, waits, refused := c.iteratorValues(n, out)
	if len(waits) > 0 || refused.Reason != "" || out.SkipMessage != "" {
		return nil, waits, refused
	}
	vars := maps.Clone(c.vars)
	for _, values := range turns {
		n.forEach.bindIterators(vars, values)
		it := item{values: values}
		if !c.isIncluded(n, &it, vars) || len(it.waits) == 0 && !c.resolveIdentity(n, &it, vars) {
			continue
		}
		found = append(found, it)
	}
	if refused = c.countItems(n, len(found)); refused.Reason != "" {
		return nil, nil, refused
	}
	return found, nil, c.findDuplicates(n, found)
}

// bindIterators sets the variables of the iterators, or of the first len(values) of them.
func (i *forEach) bindIterators(vars map[string]any, values []any) {
	for n, value := range values {
		vars[i.dimensions[n].iterator] = value
	}
}

// iteratorValues returns all combinations of the iterators' values, in order; the last
// iterator varies fastest. A list that depends on no other iterator is evaluated once.
func (c *composition) iteratorValues(n *Node, out *plan.Node) (iteratorValues [][]any, waits []plan.Wait, refused plan.Problem) {
	lists := make([][]any, len(n.forEach.dimensions))
	empty := false
	for i, d := range n.forEach.dimensions {
		if d.dependent {
			continue
		}
		list, missing := c.evaluateList(n, out, d, c.vars)
		waits = append(waits, missing...)
		empty = empty || len(missing) == 0 && len(list) == 0
		lists[i] = list
	}
	if len(waits) > 0 || empty {
		return nil, distinctWaits(waits), refused
	}
	iteratorValues = [][]any{nil}
	vars := maps.Clone(c.vars)
	for i, d := range n.forEach.dimensions {
		var next [][]any
		for _, outer := range iteratorValues {
			list := lists[i]
			if d.dependent {
				n.forEach.bindIterators(vars, outer)
				if list, waits = c.evaluateList(n, out, d, vars); len(waits) > 0 || out.SkipMessage != "" {
					return nil, waits, refused
				}
			}
			if len(next)+len(list) > MaxItems {
				return nil, nil, c.tooManyItems(n, lists)
			}
			for _, value := range list {
				next = append(next, append(slices.Clone(outer), value))
			}
		}
		iteratorValues = next
	}
	return iteratorValues, nil, refused
}

func (c *composition) tooManyItems(n *Node, lists [][]any) plan.Problem {
	var sizes []string
	for i, d := range n.forEach.dimensions {
		if !d.dependent {
			sizes = append(sizes, fmt.Sprintf("%s has %d", d.iterator, len(lists[i])))
		}
	}
	return plan.Problem{
		Reason:  plan.TooManyItems,
		Message: fmt.Sprintf("forEach gives more than %d items (MaxItems): %s", MaxItems, strings.Join(sizes, ", ")),
	}
}

// evaluateList evaluates the list of an iterator. An absent optional value is an empty
// list.
func (c *composition) evaluateList(n *Node, out *plan.Node, d dimension, vars map[string]any) ([]any, []plan.Wait) {
	value, waits := c.evaluate(n, out, d.list.Refs(), vars, func(vars map[string]any) (any, error) { return d.list.EvalWithin(c.budget, vars) })
	if len(waits) > 0 || out.SkipMessage != "" {
		return nil, waits
	}
	switch v := value.(type) {
	case []any:
		return v, nil
	case nil:
		if r, ok := d.list.Path(); ok {
			return nil, []plan.Wait{c.graph.pathWait(n, r)}
		}
	default:
		if value == expr.Absent {
			return nil, nil
		}
	}
	return nil, []plan.Wait{{Node: n.ID, Reason: plan.EvaluationFailed, On: "the list of " + d.iterator, Detail: d.list.Source() + " gives no list"}}
}

// isIncluded reports whether includeWhen includes the item. An item with a condition that cannot be evaluated yet is
// included and waits; one with a condition that needs a skipped node is not included.
func (c *composition) isIncluded(n *Node, it *item, vars map[string]any) bool {
	for _, p := range n.forEach.includeWhen {
		var skipped plan.Node
		value, waits := c.evaluate(n, &skipped, p.Refs(), vars, func(vars map[string]any) (any, error) { return p.EvalWithin(c.budget, vars) })
		if skipped.SkipMessage != "" || len(waits) == 0 && value != true {
			return false
		}
		it.waits = append(it.waits, waits...)
	}
	return true
}

// resolveIdentity returns false if the name or the namespace needs a skipped node.
func (c *composition) resolveIdentity(n *Node, it *item, vars map[string]any) bool {
	identity := n.forEach.identity
	var skipped plan.Node
	value, waits := c.evaluate(n, &skipped, identity.Refs(), vars, func(vars map[string]any) (any, error) { return identity.RenderWithin(c.budget, vars) })
	if it.waits = waits; len(waits) > 0 || skipped.SkipMessage != "" {
		return skipped.SkipMessage == ""
	}
	fields, _ := value.(map[string]any)
	it.name, _ = fields["name"].(string)
	it.namespace, _ = fields["namespace"].(string)
	if it.namespace == "" && (n.Namespaced || !n.KindKnown) && c.graph.embedded == nil {
		it.namespace = c.facts.Instance.GetNamespace()
	}
	return true
}

func (c *composition) findDuplicates(n *Node, found []item) plan.Problem {
	first := map[[2]string]int{}
	var texts []string
	for i, it := range found {
		if it.name == "" {
			continue
		}
		called := [2]string{it.namespace, it.name}
		if j, taken := first[called]; taken {
			text := object.Key{Group: n.Kind.Group, Kind: n.Kind.Kind, Namespace: it.namespace, Name: it.name}.String()
			if c.graph.itemNamesMayBeSecret(n) {
				text = n.Kind.Kind + " " + redacted
			}
			texts = append(texts, fmt.Sprintf("items %d and %d are both %s", j, i, text))
			continue
		}
		first[called] = i
	}
	if len(texts) == 0 {
		return plan.Problem{}
	}
	if more := len(texts) - maxShownDuplicates; more > 0 {
		texts = append(texts[:maxShownDuplicates], fmt.Sprintf("and %d more", more))
	}
	return plan.Problem{Reason: plan.DuplicateItems, Message: strings.Join(texts, "; ")}
}

const maxShownDuplicates = 5

func (c *composition) composeItem(n *Node, node plan.Node, it item, at inventory.Item, vars map[string]any) plan.Node {
	out := node
	out.Collection, out.Item = n.ID, &at
	out.ID = fmt.Sprintf("%s[#%d]", n.ID, at.Index)
	out.Waits = it.waits
	if it.name != "" {
		id := inventory.ItemID(n.ID, c.facts.Instance.GetNamespace(), it.namespace, it.name)
		if !n.Patch {
			out.Observed = c.ownedObject(n, it.namespace, it.name)
		}
		if out.Observed != nil || c.graph.embedded != nil || !c.graph.itemNamesMayBeSecret(n) {
			out.ID = id // a name read from a Secret is shown once an object has it
		}
		if c.graph.embedded != nil {
			out.Observed = c.facts.SoleObject(out.ID, n.Kind) // the host knows it only by this ID
		}
	}
	if len(out.Waits) == 0 {
		c.render(n, vars, &out)
	}
	if out.SkipMessage != "" {
		return out
	}
	c.addWaitDetails(out.Waits)
	for i, w := range out.Waits {
		// What all items wait for is a wait of the collection.
		if root := rootOf(w.On); c.nodes[root] == nil && root != instanceVariable {
			out.Waits[i].Node = out.ID
		}
	}
	if out.Observed != nil && !n.Patch {
		out.Ready, out.Unready = c.readiness(n, out.ID, out.Observed)
	}
	return out
}

func rootOf(path string) string {
	if i := strings.IndexAny(path, ".["); i >= 0 {
		return path[:i]
	}
	return path
}
