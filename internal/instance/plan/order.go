package plan

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/object"
)

// leaver is a child that is to go.
type leaver struct {
	*unstructured.Unstructured
	at inventory.Place
	// rank orders those that leave: the largest goes first.
	rank int
	// ordered says that it tells what it depends on.
	ordered bool
	// uses are the usages that keep it, and usage says that it is one.
	uses  []usage.Use
	usage bool
	// atOnce says that it waits for nobody here.
	atOnce bool
}

// standsAside says that a child may stay for long because of others, whom only those wait
// for that have to: everybody else goes on.
func (c leaver) standsAside() bool { return c.usage || len(c.uses) > 0 }

// leaverOf reads what a child carries.
func leaverOf(child *unstructured.Unstructured) leaver {
	return leaver{Unstructured: child, at: inventory.PlaceOf(child), ordered: inventory.IsOrdered(child)}
}

// inOrder puts children in the order in which they go: the reverse of the one in
// which they were applied, as far as nothing is to be deleted after something else.
// What they carry may contradict itself, since anybody can write it; a
// contradiction is left out of account, so that every deletion ends.
func inOrder(children []leaver) []leaver {
	ranks := rank(children)
	for i := range children {
		children[i].rank = ranks[children[i].at.Node]
	}
	slices.SortFunc(children, func(a, b leaver) int {
		if a.rank != b.rank {
			return b.rank - a.rank
		}
		return cmp.Or(object.KeyOf(a).Compare(object.KeyOf(b)), cmp.Compare(a.GetUID(), b.GetUID()))
	})
	return children
}

// rank gives each node the layer of its children, raised above all that have to
// stay longer than it. What a node stands on stays as long as it does, so that a
// rank doesn't change while others go.
func rank(children []leaver) map[string]int {
	layers, under := map[string]int{}, map[string][]string{}
	for _, c := range children {
		layers[c.at.Node] = max(layers[c.at.Node], c.at.Layer)
		under[c.at.Node] = append(under[c.at.Node], c.at.DependsOn...)
		for _, first := range c.at.DeleteAfter {
			under[first] = append(under[first], c.at.Node)
		}
	}
	ranks, visiting := map[string]int{}, map[string]bool{}
	var visit func(node string) int
	visit = func(node string) int {
		if known, ok := ranks[node]; ok {
			return known
		}
		visiting[node] = true
		highest := layers[node]
		for _, below := range under[node] {
			if _, there := layers[below]; there && !visiting[below] {
				highest = max(highest, visit(below)+1)
			}
		}
		delete(visiting, node)
		ranks[node] = highest
		return highest
	}
	for _, node := range slices.Sorted(maps.Keys(layers)) {
		visit(node)
	}
	return ranks
}

// queue says, of children in their order, which have to wait for one before them
// that is still there.
type queue interface {
	waits(leaver) bool
	// stays notes that a child is still there, and aside that it is and stands aside.
	stays(leaver)
	aside(leaver)
}

// waves let those of one rank go side by side, and the next when all are gone.
type waves struct {
	current int
	begun   bool
	// beside are those that stand aside, and what has to wait for them.
	beside *edges
}

func newWaves() *waves { return &waves{beside: newEdges(nil)} }

func (w *waves) waits(c leaver) bool {
	return (w.begun && c.rank < w.current) || w.beside.waits(c)
}

func (w *waves) stays(c leaver) {
	switch {
	case w.beside.waits(c):
		w.beside.stays(c)
	case !w.begun:
		w.current, w.begun = c.rank, true
	}
}

func (w *waves) aside(c leaver) { w.beside.aside(c) }

// edges let a child go as soon as what stands on it, or is to go before it, has
// gone: what is blocked holds up nothing else. One that doesn't tell what it
// depends on, since an earlier version has made it, keeps to the layers.
type edges struct {
	nodes  map[string]bool // that are still there
	needed map[string]bool // by those
	// highest is the highest rank of those that are still there, legacy that of
	// those that don't tell; 0 for none.
	highest, legacy int
	// through are the nodes whose objects stay in place, with what they stand on:
	// they hold up nothing, and what stands on them stands on that.
	through map[string][]string
}

func newEdges(staying []verdict) *edges {
	e := &edges{nodes: map[string]bool{}, needed: map[string]bool{}, through: map[string][]string{}}
	for _, v := range staying {
		e.through[v.at.Node] = append(e.through[v.at.Node], v.at.DependsOn...)
	}
	return e
}

func (e *edges) waits(c leaver) bool {
	if (!c.ordered && c.rank < e.highest) || c.rank < e.legacy {
		return true
	}
	return e.needed[c.at.Node] || slices.ContainsFunc(c.at.DeleteAfter, func(first string) bool { return e.nodes[first] })
}

func (e *edges) stays(c leaver) {
	e.nodes[c.at.Node] = true
	e.highest = max(e.highest, c.rank)
	if !c.ordered {
		e.legacy = max(e.legacy, c.rank)
	}
	e.need(c.at.DependsOn)
}

func (e *edges) aside(c leaver) {
	if c.usage { // nothing is below it
		e.nodes[c.at.Node] = true
		return
	}
	e.stays(c)
}

func (e *edges) need(nodes []string) {
	for _, node := range nodes {
		if !e.needed[node] {
			e.needed[node] = true
			e.need(e.through[node])
		}
	}
}
