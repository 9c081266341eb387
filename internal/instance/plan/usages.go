package plan

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/protection/v1beta1"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/object"
)

// orderByUsages adds the order that usages require: the user is deleted first, then the usage, then the used object.
// Dependencies that contradict it are dropped, because otherwise a used object would never be deleted. Usages that
// contradict each other order nothing: their deletion is requested at once, unless they protect each other.
func (r Remaining) orderByUsages(targets []target) []target {
	t := usageOrder{index: map[object.Key]int{}, before: map[string]map[string]bool{}}
	for i, c := range targets {
		t.index[object.KeyOf(c)] = i
	}
	found := false
	for i := range targets {
		c := &targets[i]
		c.usages = r.blockingUsages(c)
		c.isUsage = usage.Is(c.Unstructured)
		found = found || c.isUsage || len(c.usages) > 0
	}
	if !found {
		return targets
	}
	t.gather(targets)
	for i := range targets {
		targets[i].isCircular = targets[i].isUsage && t.isInCycle(targets[i].place.Node)
	}
	t.dropCycles()
	for i := range targets {
		c := &targets[i]
		if c.isUsage { // it has no dependencies and no dependents
			c.place.Layer, c.place.DependsOn, c.hasDependsOn = 0, nil, true
			c.unordered = !t.orders(c.place.Node)
		}
	}
	t.dropContradictions(targets)
	for _, e := range t.edges {
		for i := range targets {
			if targets[i].place.Node == e.second && !slices.Contains(targets[i].place.DeleteAfter, e.first) {
				targets[i].place.DeleteAfter = append(slices.Clone(targets[i].place.DeleteAfter), e.first)
			}
		}
	}
	return targets
}

func (r Remaining) blockingUsages(c *target) []usage.Usage {
	var out []usage.Usage
	for _, u := range r.Usages[object.KeyOf(c)] {
		if u.Blocks() {
			out = append(out, u)
		}
	}
	return out
}

type usageOrder struct {
	index map[object.Key]int // of the targets
	edges []usageEdge
	// before holds, for each node, the nodes that are deleted after it.
	before map[string]map[string]bool
}

type usageEdge struct{ first, second string }

// The order is fixed.
func (t *usageOrder) gather(targets []target) {
	for _, c := range targets {
		for _, u := range c.usages {
			own, isChild := t.index[u.Key]
			by := slices.IndexFunc(targets, func(o target) bool { return u.UsedBy(object.KeyOf(o)) })
			switch {
			case u.By == nil && isChild:
				t.add(targets[own].place.Node, c.place.Node)
			case by >= 0:
				t.add(targets[by].place.Node, c.place.Node)
				if isChild {
					t.add(targets[by].place.Node, targets[own].place.Node)
					t.add(targets[own].place.Node, c.place.Node)
				}
			}
		}
	}
	slices.SortFunc(t.edges, func(a, b usageEdge) int {
		return cmp.Or(strings.Compare(a.first, b.first), strings.Compare(a.second, b.second))
	})
}

func (t *usageOrder) add(first, second string) {
	if t.before[first][second] {
		return
	}
	t.addEdge(first, second)
	t.edges = append(t.edges, usageEdge{first, second})
}

func (t *usageOrder) addEdge(first, second string) {
	if t.before[first] == nil {
		t.before[first] = map[string]bool{}
	}
	t.before[first][second] = true
}

// Deletion order counts directly or through other nodes.
func (t *usageOrder) reaches(from, to string) bool {
	seen := map[string]bool{}
	var visit func(string) bool
	visit = func(node string) bool {
		if node == to {
			return true
		}
		if seen[node] {
			return false
		}
		seen[node] = true
		for next := range t.before[node] {
			if visit(next) {
				return true
			}
		}
		return false
	}
	return visit(from)
}

func (t *usageOrder) isInCycle(node string) bool {
	return slices.ContainsFunc(t.edges, func(e usageEdge) bool { return e.first == node && t.reaches(e.second, node) })
}

func (t *usageOrder) dropCycles() {
	kept := slices.DeleteFunc(slices.Clone(t.edges), func(e usageEdge) bool { return t.reaches(e.second, e.first) })
	t.edges, t.before = nil, map[string]map[string]bool{}
	for _, e := range kept {
		t.add(e.first, e.second)
	}
}

func (t *usageOrder) orders(node string) bool {
	return slices.ContainsFunc(t.edges, func(e usageEdge) bool { return e.first == node || e.second == node })
}

// The dropped dependencies would form a cycle with usages.
func (t *usageOrder) dropContradictions(targets []target) {
	there := map[string]bool{}
	for _, c := range targets {
		there[c.place.Node] = true
	}
	closes := func(first, second string) bool {
		if !there[first] || !there[second] {
			return false
		}
		if t.reaches(second, first) {
			return true
		}
		t.addEdge(first, second)
		return false
	}
	order := make([]int, len(targets))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return object.KeyOf(targets[a]).Compare(object.KeyOf(targets[b])) })
	for _, i := range order {
		at := &targets[i].place
		at.DependsOn = slices.DeleteFunc(slices.Clone(at.DependsOn), func(below string) bool { return closes(at.Node, below) })
		at.DeleteAfter = slices.DeleteFunc(slices.Clone(at.DeleteAfter), func(first string) bool { return closes(first, at.Node) })
	}
}

// It is the child's turn. A usage that ends with the removal isn't reported: it is part of the order. Of usages without
// users that protect each other none can be deleted first.
func (r Remaining) usageBlocker(c target) (blocker *report.Blocker, used bool) {
	if len(c.usages) == 0 {
		return r.labelBlocker(c)
	}
	var outside []usage.Usage
	for _, u := range c.usages {
		if !r.endsWithRemoval(u) || c.isCircular && u.By == nil {
			outside = append(outside, u)
		}
	}
	if len(outside) == 0 {
		return nil, true
	}
	return r.newBlocker(c, report.Protected, usage.Message(outside), r.Now), true
}

// A usage ends with this removal if the user is an instance that is being deleted, or a target or former target; or
// there is no user and the usage is such a target.
func (r Remaining) endsWithRemoval(u usage.Usage) bool {
	isTarget := func(is func(object.Key) bool) bool {
		return slices.ContainsFunc(r.deleting, is)
	}
	wasTarget := func(uid types.UID) bool { // it may be gone, and some caches might not show it yet
		_, known := r.History.Children[uid]
		return known
	}
	switch {
	case u.By == nil:
		return wasTarget(u.UID) || slices.Contains(r.deleting, u.Key)
	case u.Relation == usage.UserIsAncestor, isTarget(u.UsedBy):
		return true
	case u.UsedBy(object.KeyOf(r.Instance)):
		return r.Instance.GetDeletionTimestamp() != nil
	}
	return wasTarget(u.ByUID)
}

// Usages can't be read, so the in-use label blocks the child.
func (r Remaining) labelBlocker(c target) (blocker *report.Blocker, used bool) {
	if r.UsagesUnreadable == "" || c.GetLabels()[v1beta1.InUseLabel] != "true" {
		return nil, false
	}
	return r.newBlocker(c, report.Protected, "it is labeled as in use, and its usages cannot be read: "+r.UsagesUnreadable, r.Now), true
}

// instanceUsageBlocker returns the usages that block the instance itself, other than those that
// end with the removal.
func (r Remaining) instanceUsageBlocker() *report.Blocker {
	self := target{Unstructured: r.Instance}
	var outside []usage.Usage
	for _, u := range r.blockingUsages(&self) {
		if !r.endsWithRemoval(u) {
			outside = append(outside, u)
		}
	}
	if len(outside) == 0 {
		blocker, _ := r.labelBlocker(self)
		return blocker
	}
	return r.newBlocker(self, report.Protected, usage.Message(outside), r.Now)
}

// terminatingUsageBlocker reports a usage that is being deleted and stays because an object that
// is no target uses another. Known is false if the child is no such usage.
func (r Remaining) terminatingUsageBlocker(c target) (blocker *report.Blocker, known bool) {
	if !isKeptByUsageFinalizer(c) {
		return nil, false
	}
	u, ok := usage.Read(c.Unstructured)
	if !ok || u.By == nil {
		return nil, false
	}
	if r.endsWithRemoval(u) || slices.ContainsFunc(r.deleting, u.Uses) {
		return nil, true // the used object reports it
	}
	return r.newBlocker(c, report.Protected, "keeps "+u.Of.String()+" for "+u.By.String()+"; it is deleted once that is gone", r.Now), true
}

// Only the finalizer of usages keeps such a usage.
func isKeptByUsageFinalizer(c target) bool {
	finalizers := c.GetFinalizers()
	return c.isUsage && len(finalizers) == 1 && finalizers[0] == v1beta1.Finalizer
}

func keysOf(children []target) []object.Key {
	out := make([]object.Key, len(children))
	for i, c := range children {
		out[i] = object.KeyOf(c)
	}
	return out
}
