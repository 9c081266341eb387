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

// target is a child that is to be deleted.
type target struct {
	*unstructured.Unstructured
	place inventory.Place
	// rank is the place in the order of deletion: the highest rank is deleted first.
	rank int
	// hasDependsOn says that the child lists its dependencies.
	hasDependsOn bool
	// usages are the usages that block its deletion, and isUsage says that it is a usage itself.
	usages  []usage.Usage
	isUsage bool
	// isCircular says that it is a usage that protects itself, directly or through other usages.
	isCircular bool
	// unordered says that it waits for no other target.
	unordered bool
}

// blocksOnlyDependents says that the deletion of a child may take long because of other objects:
// only the targets that are ordered after it wait for it.
func (c target) blocksOnlyDependents() bool { return c.isUsage || len(c.usages) > 0 }

func targetOf(child *unstructured.Unstructured) target {
	return target{Unstructured: child, place: inventory.PlaceOf(child), hasDependsOn: inventory.HasDependsOn(child)}
}

// sortForDeletion sorts children in the order of their deletion: the reverse order of application, unless deleteAfter
// says otherwise. Their annotations may contradict each other, because any user can write them; contradictions are
// ignored, so every deletion ends.
func sortForDeletion(children []target) []target {
	ranks := computeRanks(children)
	for i := range children {
		children[i].rank = ranks[children[i].place.Node]
	}
	slices.SortFunc(children, func(a, b target) int {
		if a.rank != b.rank {
			return b.rank - a.rank
		}
		return cmp.Or(object.KeyOf(a).Compare(object.KeyOf(b)), cmp.Compare(a.GetUID(), b.GetUID()))
	})
	return children
}

// computeRanks returns, for each node, the layer of its children, raised above the ranks of all nodes that are to be
// deleted after it. The dependencies of a node exist as long as the node does, so a rank doesn't change while other
// nodes are deleted.
func computeRanks(children []target) map[string]int {
	layers, dependencies := map[string]int{}, map[string][]string{}
	for _, c := range children {
		layers[c.place.Node] = max(layers[c.place.Node], c.place.Layer)
		dependencies[c.place.Node] = append(dependencies[c.place.Node], c.place.DependsOn...)
		for _, first := range c.place.DeleteAfter {
			dependencies[first] = append(dependencies[first], c.place.Node)
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
		for _, below := range dependencies[node] {
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

// deletionOrder decides, for targets in their order, which have to wait for an earlier one that
// still exists.
type deletionOrder interface {
	mustWait(target) bool
	// addRemaining adds a target that still exists, and addLingering one that does, if blocksOnlyDependents is true for
	// it.
	addRemaining(target)
	addLingering(target)
}

// It deletes all targets of one rank in parallel, and the next rank when these are gone.
type waveOrder struct {
	current int
	started bool
	// lingering orders the targets that were added by addLingering and their dependencies.
	lingering *dependencyOrder
}

func newWaveOrder() *waveOrder { return &waveOrder{lingering: newDependencyOrder(nil)} }

func (w *waveOrder) mustWait(c target) bool {
	return (w.started && c.rank < w.current) || w.lingering.mustWait(c)
}

func (w *waveOrder) addRemaining(c target) {
	switch {
	case w.lingering.mustWait(c):
		w.lingering.addRemaining(c)
	case !w.started:
		w.current, w.started = c.rank, true
	}
}

func (w *waveOrder) addLingering(c target) { w.lingering.addLingering(c) }

// dependencyOrder deletes a target as soon as its dependents, and targets that are to be deleted before it, are gone: a
// blocked one delays nothing else. A target that doesn't list its dependencies, because an earlier version has created
// it, follows the order of the layers.
type dependencyOrder struct {
	nodes  map[string]bool // that still have objects
	needed map[string]bool // dependencies of these
	// highest is the highest rank of the targets that still exist, and highestUnordered of the ones without a list of
	// dependencies; 0 for none.
	highest, highestUnordered int
	// passThrough are the nodes with objects that stay in place, and their dependencies: they delay nothing, and their
	// dependents depend on their dependencies.
	passThrough map[string][]string
}

func newDependencyOrder(staying []verdict) *dependencyOrder {
	e := &dependencyOrder{nodes: map[string]bool{}, needed: map[string]bool{}, passThrough: map[string][]string{}}
	for _, v := range staying {
		e.passThrough[v.place.Node] = append(e.passThrough[v.place.Node], v.place.DependsOn...)
	}
	return e
}

func (e *dependencyOrder) mustWait(c target) bool {
	if (!c.hasDependsOn && c.rank < e.highest) || c.rank < e.highestUnordered {
		return true
	}
	return e.needed[c.place.Node] || slices.ContainsFunc(c.place.DeleteAfter, func(first string) bool { return e.nodes[first] })
}

func (e *dependencyOrder) addRemaining(c target) {
	e.nodes[c.place.Node] = true
	e.highest = max(e.highest, c.rank)
	if !c.hasDependsOn {
		e.highestUnordered = max(e.highestUnordered, c.rank)
	}
	e.addNeeded(c.place.DependsOn)
}

func (e *dependencyOrder) addLingering(c target) {
	if c.isUsage { // it has no dependencies
		e.nodes[c.place.Node] = true
		return
	}
	e.addRemaining(c)
}

func (e *dependencyOrder) addNeeded(nodes []string) {
	for _, node := range nodes {
		if !e.needed[node] {
			e.needed[node] = true
			e.addNeeded(e.passThrough[node])
		}
	}
}
