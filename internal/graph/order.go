package graph

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/internal/graph/dag"
)

func connectDependencies(c *compilation) {
	byID := map[string]*draft{}
	for _, d := range c.drafts {
		if c.words.name.MatchString(d.name) {
			byID[d.ID] = d
		}
	}
	g := dag.New(slices.Collect(maps.Keys(byID))...)
	for _, d := range c.drafts {
		if d.broken {
			continue
		}
		reads := map[string]struct{}{}
		for _, r := range d.refs {
			if _, ok := byID[r.Root]; ok && r.Root != d.ID {
				reads[r.Root] = struct{}{}
			}
		}
		d.Dependencies = slices.Sorted(maps.Keys(reads))
		g.Connect(d.ID, d.Dependencies...)
	}
	layers, err := g.Layers()
	var cycle *dag.CycleError[string]
	if errors.As(err, &cycle) {
		c.problems.Addf(c.words.nodes, "%v: %s", err, describeCycle(cycle.Path, byID))
		return
	}
	for _, layer := range layers {
		for _, id := range layer {
			byID[id].Layer = layerOf(byID[id], byID)
			byID[id].readsSecret = c.graph.mayReadSecret(byID[id].refs)
			byID[id].mayHoldSecret = byID[id].readsSecret || byID[id].Kind.GroupKind() == secretKind
			c.graph.Nodes = append(c.graph.Nodes, byID[id].Node)
		}
	}
}

// layerOf computes the layer of a node from the layers of its dependencies. A variable adds no layer: it is computed
// as soon as its dependencies exist.
func layerOf(d *draft, byID map[string]*draft) int {
	layer := 0
	for _, id := range d.Dependencies {
		step := 1
		if byID[id].Variable {
			step = 0
		}
		layer = max(layer, byID[id].Layer+step)
	}
	return layer
}

func describeCycle(cycle []string, byID map[string]*draft) string {
	var out []string
	for i, id := range cycle[:len(cycle)-1] {
		for _, r := range byID[id].refs {
			if r.Root == cycle[i+1] {
				out = append(out, fmt.Sprintf("%s reads %s", id, r))
				break
			}
		}
	}
	return strings.Join(out, ", ")
}
