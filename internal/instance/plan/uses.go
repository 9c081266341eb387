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

// tie puts what usages say into the order of those that leave: who uses something goes
// first, then the usage, then what was used. What the children carry of their order gives
// way to that where it contradicts it, since nothing else would ever let go of what is in
// use. Usages that contradict each other order nothing, and are asked to go at once.
func (r Remaining) tie(leaving []leaver) []leaver {
	t := ties{index: map[object.Key]int{}, before: map[string]map[string]bool{}}
	for i, c := range leaving {
		t.index[object.KeyOf(c)] = i
	}
	tied := false
	for i := range leaving {
		c := &leaving[i]
		c.uses = r.usesOf(c)
		c.usage = usage.Is(c.Unstructured)
		tied = tied || c.usage || len(c.uses) > 0
	}
	if !tied {
		return leaving
	}
	t.gather(leaving)
	t.dropCircles()
	for i := range leaving {
		c := &leaving[i]
		if c.usage { // it stands on nothing, and nothing stands on it
			c.at.Layer, c.at.DependsOn, c.ordered = 0, nil, true
			c.atOnce = !t.orders(c.at.Node)
		}
	}
	t.giveWay(leaving)
	for _, e := range t.edges {
		for i := range leaving {
			if leaving[i].at.Node == e.second && !slices.Contains(leaving[i].at.DeleteAfter, e.first) {
				leaving[i].at.DeleteAfter = append(slices.Clone(leaving[i].at.DeleteAfter), e.first)
			}
		}
	}
	return leaving
}

// usesOf are the usages that keep a child.
func (r Remaining) usesOf(c *leaver) []usage.Use {
	var out []usage.Use
	for _, u := range r.Uses[object.KeyOf(c)] {
		if u.Holds() {
			out = append(out, u)
		}
	}
	return out
}

// ties are an order between nodes, being made.
type ties struct {
	index map[object.Key]int // of those that leave
	edges []tie
	// before has, for each node, those that it goes before.
	before map[string]map[string]bool
}

// tie says that one node goes before another.
type tie struct{ first, second string }

// gather lists what usages say of those that leave, in a fixed order.
func (t *ties) gather(leaving []leaver) {
	for _, c := range leaving {
		for _, u := range c.uses {
			own, isChild := t.index[u.Usage]
			by := slices.IndexFunc(leaving, func(o leaver) bool { return u.UsedBy(object.KeyOf(o)) })
			switch {
			case u.By == nil && isChild:
				t.add(leaving[own].at.Node, c.at.Node)
			case by >= 0:
				t.add(leaving[by].at.Node, c.at.Node)
				if isChild {
					t.add(leaving[by].at.Node, leaving[own].at.Node)
					t.add(leaving[own].at.Node, c.at.Node)
				}
			}
		}
	}
	slices.SortFunc(t.edges, func(a, b tie) int {
		return cmp.Or(strings.Compare(a.first, b.first), strings.Compare(a.second, b.second))
	})
}

func (t *ties) add(first, second string) {
	if first == second || t.before[first][second] {
		return
	}
	t.put(first, second)
	t.edges = append(t.edges, tie{first, second})
}

func (t *ties) put(first, second string) {
	if t.before[first] == nil {
		t.before[first] = map[string]bool{}
	}
	t.before[first][second] = true
}

// reaches says whether a node goes before another, directly or by way of others.
func (t *ties) reaches(from, to string) bool {
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

// dropCircles leaves out of account all that goes before itself.
func (t *ties) dropCircles() {
	kept := slices.DeleteFunc(slices.Clone(t.edges), func(e tie) bool { return t.reaches(e.second, e.first) })
	t.edges, t.before = nil, map[string]map[string]bool{}
	for _, e := range kept {
		t.add(e.first, e.second)
	}
}

// orders says whether a node goes before or after another by what usages say.
func (t *ties) orders(node string) bool {
	return slices.ContainsFunc(t.edges, func(e tie) bool { return e.first == node || e.second == node })
}

// giveWay takes from what children carry of their order what would close a circle with
// what usages say.
func (t *ties) giveWay(leaving []leaver) {
	there := map[string]bool{}
	for _, c := range leaving {
		there[c.at.Node] = true
	}
	closes := func(first, second string) bool {
		if !there[first] || !there[second] {
			return false
		}
		if first != second && t.reaches(second, first) {
			return true
		}
		t.put(first, second)
		return false
	}
	order := make([]int, len(leaving))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return object.KeyOf(leaving[a]).Compare(object.KeyOf(leaving[b])) })
	for _, i := range order {
		at := &leaving[i].at
		at.DependsOn = slices.DeleteFunc(slices.Clone(at.DependsOn), func(below string) bool { return closes(at.Node, below) })
		at.DeleteAfter = slices.DeleteFunc(slices.Clone(at.DeleteAfter), func(first string) bool { return closes(first, at.Node) })
	}
}

// inUse says what keeps a child whose turn it is from being asked to go, if something
// uses it. What is settled among those that leave isn't told: it is their order.
func (r Remaining) inUse(c leaver) (held *report.Blocker, used bool) {
	if len(c.uses) == 0 {
		return r.markedOnly(c)
	}
	var outside []usage.Use
	for _, u := range c.uses {
		if !r.settled(u) {
			outside = append(outside, u)
		}
	}
	if len(outside) == 0 {
		return nil, true
	}
	return r.blocker(c, report.Protected, usage.Message(outside), r.Now), true
}

// settled says whether a usage goes by itself with what is being taken apart: an instance
// uses it that goes, or a part of it that leaves or has left, or nobody does and it is
// such a part.
func (r Remaining) settled(u usage.Use) bool {
	leaves := func(is func(object.Key) bool) bool {
		return slices.ContainsFunc(r.leaving, is)
	}
	left := func(uid types.UID) bool { // it may have, and not everybody has heard of it
		_, ours := r.History.Children[uid]
		return ours
	}
	switch {
	case u.By == nil:
		return left(u.UID) || slices.Contains(r.leaving, u.Usage)
	case u.Kin == usage.UserAbove, leaves(u.UsedBy):
		return true
	case u.UsedBy(object.KeyOf(r.Instance)):
		return r.Instance.GetDeletionTimestamp() != nil
	}
	return left(u.ByUID)
}

// markedOnly holds on to what carries the mark of being used while usages can't be read.
func (r Remaining) markedOnly(c leaver) (held *report.Blocker, used bool) {
	if r.UsesUnknown == "" || c.GetLabels()[v1beta1.InUseLabel] != "true" {
		return nil, false
	}
	return r.blocker(c, report.Protected, "it is marked as in use, and by whom can't be told: "+r.UsesUnknown, r.Now), true
}

// instanceInUse says what keeps the instance itself, beside what goes before it anyway:
// its parts, and usages that are among them.
func (r Remaining) instanceInUse() *report.Blocker {
	self := leaver{Unstructured: r.Instance}
	var outside []usage.Use
	for _, u := range r.usesOf(&self) {
		if !r.settled(u) {
			outside = append(outside, u)
		}
	}
	if len(outside) == 0 {
		held, _ := r.markedOnly(self)
		return held
	}
	return r.blocker(self, report.Protected, usage.Message(outside), r.Now)
}

// stayingUsage tells of a usage that is being deleted and stays for who uses what is not
// among those that leave.
func (r Remaining) stayingUsage(c leaver) (held *report.Blocker, tells bool) {
	if !keptAsUsage(c) {
		return nil, false
	}
	u, ok := usage.Read(c.Unstructured)
	if !ok || u.By == nil {
		return nil, false
	}
	if r.settled(u) || slices.ContainsFunc(r.leaving, u.Of.Is) {
		return nil, true // what is used tells
	}
	return r.blocker(c, report.Protected, "keeps "+u.Of.String()+" for "+u.By.String()+", and goes when that has gone", r.Now), true
}

// keptAsUsage says that nothing keeps a child but that it is a usage.
func keptAsUsage(c leaver) bool {
	finalizers := c.GetFinalizers()
	return c.usage && len(finalizers) == 1 && finalizers[0] == v1beta1.Finalizer
}

// keysOf names children.
func keysOf(children []leaver) []object.Key {
	out := make([]object.Key, len(children))
	for i, c := range children {
		out[i] = object.KeyOf(c)
	}
	return out
}
