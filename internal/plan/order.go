package plan

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/object"
)

// leaver is a child that is to go.
type leaver struct {
	*unstructured.Unstructured
	at inventory.Place
	// rank orders those that leave: the largest goes first.
	rank int
}

// inOrder puts the children in the order in which they go: the reverse of the one
// in which they were applied, as far as nothing is to be deleted after something
// else. What the children carry may contradict itself, since anybody can write it;
// a contradiction is left out of account, so that every deletion ends.
func inOrder(children []*unstructured.Unstructured) []leaver {
	ranks := rank(children)
	out := make([]leaver, len(children))
	for i, child := range children {
		at := inventory.PlaceOf(child)
		out[i] = leaver{Unstructured: child, at: at, rank: ranks[at.Node]}
	}
	slices.SortFunc(out, func(a, b leaver) int {
		return cmp.Or(b.rank-a.rank, object.KeyOf(a).Compare(object.KeyOf(b)), cmp.Compare(a.GetUID(), b.GetUID()))
	})
	return out
}

// rank gives each node the layer of its children, raised above all that have to
// stay longer than it. What a node stands on stays as long as it does, so that a
// rank doesn't change while others go.
func rank(children []*unstructured.Unstructured) map[string]int {
	layers, under := map[string]int{}, map[string][]string{}
	for _, child := range children {
		at := inventory.PlaceOf(child)
		layers[at.Node] = max(layers[at.Node], at.Layer)
		under[at.Node] = append(under[at.Node], at.DependsOn...)
		for _, first := range at.DeleteAfter {
			under[first] = append(under[first], at.Node)
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
	for _, child := range inNameOrder(layers) {
		visit(child)
	}
	return ranks
}

func inNameOrder(nodes map[string]int) []string {
	out := make([]string, 0, len(nodes))
	for node := range nodes {
		out = append(out, node)
	}
	slices.Sort(out)
	return out
}

// queue says, of children in their order, which have to wait for one before them
// that is still there.
type queue interface {
	waits(leaver) bool
	// stays notes that a child is still there.
	stays(leaver)
}

// waves let those of one rank go side by side, and the next when all are gone.
type waves struct {
	current int
	begun   bool
}

func (w *waves) waits(c leaver) bool { return w.begun && c.rank < w.current }

func (w *waves) stays(c leaver) {
	if !w.begun {
		w.current, w.begun = c.rank, true
	}
}

// edges let a child go as soon as what stands on it, or is to go before it, has
// gone: what is blocked holds up nothing else.
type edges struct {
	nodes  map[string]bool // that are still there
	needed map[string]bool // by those
}

func newEdges() *edges { return &edges{nodes: map[string]bool{}, needed: map[string]bool{}} }

func (e *edges) waits(c leaver) bool {
	return e.needed[c.at.Node] || slices.ContainsFunc(c.at.DeleteAfter, func(first string) bool { return e.nodes[first] })
}

func (e *edges) stays(c leaver) {
	e.nodes[c.at.Node] = true
	for _, below := range c.at.DependsOn {
		e.needed[below] = true
	}
}
