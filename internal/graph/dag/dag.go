// Package dag is a directed acyclic graph with deterministic results: the same nodes and
// edges, added in any order, give the same order, the same layers and the same cycle.
//
// Pure: it decides from values alone.
package dag

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Graph holds nodes and their dependencies. New creates one; the zero value is not usable.
// It is not safe for concurrent modification.
type Graph[K cmp.Ordered] struct {
	dependencies map[K]map[K]struct{}
}

// New returns a graph of the given nodes, without edges.
func New[K cmp.Ordered](nodes ...K) *Graph[K] {
	g := &Graph[K]{dependencies: make(map[K]map[K]struct{}, len(nodes))}
	for _, n := range nodes {
		g.dependencies[n] = map[K]struct{}{}
	}
	return g
}

// Connect makes node depend on each of dependsOn. It panics if one of them is not a node of the graph, which is a
// mistake of the program and not of its input.
func (g *Graph[K]) Connect(node K, dependsOn ...K) {
	for _, d := range append([]K{node}, dependsOn...) {
		if _, ok := g.dependencies[d]; !ok {
			panic(fmt.Sprintf("dag: %v is not a node", d))
		}
	}
	for _, d := range dependsOn {
		g.dependencies[node][d] = struct{}{}
	}
}

// Dependencies returns the direct dependencies of node, sorted.
func (g *Graph[K]) Dependencies(node K) []K {
	return slices.Sorted(maps.Keys(g.dependencies[node]))
}

// Layers groups the nodes so that each depends only on nodes of earlier layers and is in
// the first layer where that holds. Nodes of a layer are sorted. The error is a *CycleError
// if the graph has a cycle.
func (g *Graph[K]) Layers() ([][]K, error) {
	missing := make(map[K]int, len(g.dependencies))
	dependants := make(map[K][]K, len(g.dependencies))
	var ready []K
	for node, deps := range g.dependencies {
		missing[node] = len(deps)
		for d := range deps {
			dependants[d] = append(dependants[d], node)
		}
		if len(deps) == 0 {
			ready = append(ready, node)
		}
	}
	var layers [][]K
	placed := 0
	for len(ready) > 0 {
		slices.Sort(ready)
		layers = append(layers, ready)
		placed += len(ready)
		var next []K
		for _, node := range ready {
			for _, d := range dependants[node] {
				if missing[d]--; missing[d] == 0 {
					next = append(next, d)
				}
			}
		}
		ready = next
	}
	if placed < len(g.dependencies) {
		return nil, &CycleError[K]{Path: g.shortestCycle(missing)}
	}
	return layers, nil
}

// Order returns the nodes so that each comes after its dependencies: layer by layer, sorted
// within a layer. The error is a *CycleError if the graph has a cycle.
func (g *Graph[K]) Order() ([]K, error) {
	layers, err := g.Layers()
	if err != nil {
		return nil, err
	}
	return slices.Concat(layers...), nil
}

// The nodes have no layer. Of several shortest cycles, it is the one that begins with the smallest node.
func (g *Graph[K]) shortestCycle(missing map[K]int) []K {
	var stuck []K
	for node, n := range missing {
		if n > 0 {
			stuck = append(stuck, node)
		}
	}
	slices.Sort(stuck)
	var best []K
	for _, start := range stuck {
		if path := g.shortestCycleThrough(start); path != nil && (best == nil || len(path) < len(best)) {
			best = path
		}
	}
	return best
}

// It finds a shortest path from start to start by breadth-first search; nil if there is none.
func (g *Graph[K]) shortestCycleThrough(start K) []K {
	cameFrom := map[K]K{}
	queue := []K{start}
	for len(queue) > 0 {
		node := queue[0]
		queue = queue[1:]
		for _, d := range g.Dependencies(node) {
			if d == start {
				path := []K{start}
				for at := node; at != start; at = cameFrom[at] {
					path = append(path, at)
				}
				path = append(path, start)
				slices.Reverse(path)
				return path
			}
			if _, seen := cameFrom[d]; !seen {
				cameFrom[d] = node
				queue = append(queue, d)
			}
		}
	}
	return nil
}

// CycleError names nodes that depend on each other in a cycle.
type CycleError[K cmp.Ordered] struct {
	// Path begins and ends with the same node; each depends on the next.
	Path []K
}

// Error renders the cycle as "a → b → a".
func (e *CycleError[K]) Error() string {
	parts := make([]string, len(e.Path))
	for i, n := range e.Path {
		parts[i] = fmt.Sprint(n)
	}
	return "graph contains a cycle: " + strings.Join(parts, " → ")
}
