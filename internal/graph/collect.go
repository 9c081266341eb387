package graph

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
)

// collect says what a collection wants. As long as its items aren't known it is one
// node, which is held; after that each item is a node of its own, and what keeps one
// item keeps no other. Others see the items that are there as a list.
func (c *composition) collect(n *Node, whole plan.Node) (plan.Node, []plan.Node) {
	if _, blind := c.facts.UnreadableKind(n.Kind); blind {
		return whole, []plan.Node{whole} // which items are there can't be told
	}
	if len(whole.Waits) == 0 {
		whole.Waits = c.unmet(n)
	}
	var found []item
	if len(whole.Waits) == 0 {
		found, whole.Waits, whole.Refused = c.items(n)
	}
	c.passOn(whole.Waits)
	if len(whole.Waits) > 0 || whole.Refused.Reason != "" {
		c.seen(n, &whole, c.madeBefore(n))
		whole.Unready.Message = "its items aren't known"
		return whole, []plan.Node{whole}
	}
	parts := make([]plan.Node, 0, len(found))
	var there []*unstructured.Unstructured
	ready := 0
	vars := maps.Clone(c.vars)
	for i, it := range found {
		n.items.bind(vars, it.values)
		part := c.part(n, whole, it, inventory.Item{Index: i, Size: len(found)}, vars)
		if part.Observed != nil {
			there = append(there, part.Observed)
		}
		if part.Ready {
			ready++
		}
		parts = append(parts, part)
	}
	whole.Ready = ready == len(found)
	whole.Unready.Message = fmt.Sprintf("%d of %d items are ready", ready, len(found))
	if len(found) == 0 || len(there) > 0 {
		c.seen(n, &whole, there)
	}
	if len(found) == 0 {
		none := whole
		none.Skipped = "forEach gives no items"
		return whole, []plan.Node{none}
	}
	return whole, parts
}

// seen makes the objects of a collection a list that others read, unless there are
// none because nothing is known of them.
func (c *composition) seen(n *Node, whole *plan.Node, there []*unstructured.Unstructured) {
	if len(whole.Waits) > 0 && len(there) == 0 {
		return
	}
	list := make([]any, len(there))
	for i, o := range there {
		list[i] = o.Object
	}
	c.vars[n.ID] = list
}

// madeBefore are the objects that the collection has made, in the order that they had.
func (c *composition) madeBefore(n *Node) []*unstructured.Unstructured {
	out := slices.DeleteFunc(slices.Clone(c.facts.Owned[n.ID]), func(o *unstructured.Unstructured) bool {
		return o.GroupVersionKind() != n.Kind
	})
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(indexOf(a), indexOf(b)), object.KeyOf(a).Compare(object.KeyOf(b)))
	})
	return out
}

func indexOf(o *unstructured.Unstructured) int {
	if item := inventory.ItemOf(o); item != nil {
		return item.Index
	}
	return MaxItems
}

// item is one turn of a collection's iterators.
type item struct {
	// values are those of the iterators.
	values []any
	// namespace and name are what its object is called; without a name, waits says why
	// that, or whether there is such an item at all, isn't known.
	namespace, name string
	waits           []plan.Wait
}

// items finds the items of a collection: those that its iterators give, without those
// that a condition leaves out.
func (c *composition) items(n *Node) (found []item, waits []plan.Wait, refused plan.Problem) {
	turns, waits, refused := c.turns(n)
	if len(waits) > 0 || refused.Reason != "" {
		return nil, waits, refused
	}
	vars := maps.Clone(c.vars)
	for _, values := range turns {
		n.items.bind(vars, values)
		it := item{values: values}
		if !c.included(n, &it, vars) {
			continue
		}
		if len(it.waits) == 0 {
			c.identify(n, &it, vars)
		}
		found = append(found, it)
	}
	return found, nil, c.duplicates(n, found)
}

// bind gives the iterators, or the first of them, values.
func (i *items) bind(vars map[string]any, values []any) {
	for n, value := range values {
		vars[i.dimensions[n].iterator] = value
	}
}

// turns evaluates the iterators: all combinations of their values, in order, the last
// iterator turning fastest. What none of a list follows from is asked for once.
func (c *composition) turns(n *Node) (turns [][]any, waits []plan.Wait, refused plan.Problem) {
	lists := make([][]any, len(n.items.dimensions))
	empty := false
	for i, d := range n.items.dimensions {
		if d.dependent {
			continue
		}
		list, missing := c.list(n, d, c.vars)
		waits = append(waits, missing...)
		empty = empty || len(missing) == 0 && len(list) == 0
		lists[i] = list
	}
	if len(waits) > 0 || empty {
		return nil, distinct(waits), refused
	}
	turns = [][]any{nil}
	vars := maps.Clone(c.vars)
	for i, d := range n.items.dimensions {
		var next [][]any
		for _, outer := range turns {
			list := lists[i]
			if d.dependent {
				n.items.bind(vars, outer)
				if list, waits = c.list(n, d, vars); len(waits) > 0 {
					return nil, waits, refused
				}
			}
			if len(next)+len(list) > MaxItems {
				return nil, nil, c.tooMany(n, lists)
			}
			for _, value := range list {
				next = append(next, append(slices.Clone(outer), value))
			}
		}
		turns = next
	}
	return turns, nil, refused
}

func (c *composition) tooMany(n *Node, lists [][]any) plan.Problem {
	var sizes []string
	for i, d := range n.items.dimensions {
		if !d.dependent {
			sizes = append(sizes, fmt.Sprintf("%s has %d", d.iterator, len(lists[i])))
		}
	}
	return plan.Problem{
		Reason:  plan.TooManyItems,
		Message: fmt.Sprintf("forEach gives more than %d items (MaxItems): %s", MaxItems, strings.Join(sizes, ", ")),
	}
}

// list evaluates what an iterator goes through. An optional value that isn't there is
// an empty list.
func (c *composition) list(n *Node, d dimension, vars map[string]any) ([]any, []plan.Wait) {
	value, err := d.list.Eval(vars)
	if err != nil {
		return nil, c.graph.waitsOf(n, err)
	}
	switch v := value.(type) {
	case []any:
		return v, nil
	case nil:
		if r, ok := d.list.Path(); ok {
			return nil, []plan.Wait{fieldWait(n, r)}
		}
	default:
		if value == expr.Absent {
			return nil, nil
		}
	}
	return nil, []plan.Wait{{Node: n.ID, Reason: plan.EvaluationFailed, On: "the list of " + d.iterator, Detail: d.list.Source() + " gives no list"}}
}

// included says whether there is such an item. One of which that can't be told yet is
// there, and waits.
func (c *composition) included(n *Node, it *item, vars map[string]any) bool {
	for _, p := range n.items.includeWhen {
		value, err := p.Eval(vars)
		if err == nil && value != true {
			return false
		}
		if err != nil {
			it.waits = append(it.waits, c.graph.waitsOf(n, err)...)
		}
	}
	return true
}

// identify finds out what an item's object is called.
func (c *composition) identify(n *Node, it *item, vars map[string]any) {
	value, err := n.items.identity.Render(vars)
	if err != nil {
		it.waits = c.graph.waitsOf(n, err)
		return
	}
	identity, _ := value.(map[string]any)
	it.name, _ = identity["name"].(string)
	it.namespace, _ = identity["namespace"].(string)
	if it.namespace == "" && (n.Namespaced || !n.Known) && c.graph.guest == nil {
		it.namespace = c.facts.Instance.GetNamespace()
	}
}

// duplicates says which items are called the same: they would be one object.
func (c *composition) duplicates(n *Node, found []item) plan.Problem {
	first := map[[2]string]int{}
	var texts []string
	for i, it := range found {
		if it.name == "" {
			continue
		}
		called := [2]string{it.namespace, it.name}
		if j, taken := first[called]; taken {
			text := object.Key{Group: n.Kind.Group, Kind: n.Kind.Kind, Namespace: it.namespace, Name: it.name}.String()
			if c.graph.secretlyNamed(n) {
				text = n.Kind.Kind + " " + hidden
			}
			texts = append(texts, fmt.Sprintf("items %d and %d are both %s", j, i, text))
			continue
		}
		first[called] = i
	}
	if len(texts) == 0 {
		return plan.Problem{}
	}
	if more := len(texts) - mostDuplicates; more > 0 {
		texts = append(texts[:mostDuplicates], fmt.Sprintf("and %d more", more))
	}
	return plan.Problem{Reason: plan.DuplicateItems, Message: strings.Join(texts, "; ")}
}

// mostDuplicates bounds the items that a message names.
const mostDuplicates = 5

// part is an item as a node of its own.
func (c *composition) part(n *Node, whole plan.Node, it item, at inventory.Item, vars map[string]any) plan.Node {
	out := whole
	out.Collection, out.Item = n.ID, &at
	out.ID = fmt.Sprintf("%s[#%d]", n.ID, at.Index)
	out.Waits = it.waits
	if it.name != "" {
		id := inventory.ItemID(n.ID, c.facts.Instance.GetNamespace(), it.namespace, it.name)
		out.Observed = c.facts.Object(n.ID, n.Kind, it.namespace, it.name)
		if out.Observed != nil || c.graph.guest != nil || !c.graph.secretlyNamed(n) {
			out.ID = id // a secret name is told when it is an object's
		}
		if c.graph.guest != nil {
			out.Observed = c.facts.SoleObject(out.ID, n.Kind) // its host knows it by that alone
		}
	}
	if len(out.Waits) == 0 {
		c.render(n, vars, &out)
	}
	c.passOn(out.Waits)
	for i, w := range out.Waits {
		// What all items wait for is the collection's to wait for.
		if root := rootOf(w.On); c.nodes[root] == nil && root != instanceVariable {
			out.Waits[i].Node = out.ID
		}
	}
	if out.Observed != nil {
		out.Ready, out.Unready = c.readiness(n, out.ID, out.Observed)
	}
	return out
}

// rootOf is the name that a path begins with.
func rootOf(path string) string {
	if i := strings.IndexAny(path, ".["); i >= 0 {
		return path[:i]
	}
	return path
}
