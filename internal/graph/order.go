package graph

import (
	"maps"
	"slices"

	"github.com/espalier-dev/espalier/internal/dag"
)

// connect finds what depends on what, and the order that follows.
func connect(c *compilation) {
	byID := map[string]*draft{}
	for _, d := range c.drafts {
		if nodeName.MatchString(d.ID) {
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
	if err != nil {
		c.problems.Addf("spec.resources", "%v", err)
		return
	}
	for i, layer := range layers {
		for _, id := range layer {
			byID[id].Layer = i
			byID[id].derived = c.graph.conceals(byID[id].refs)
			byID[id].conceals = byID[id].derived || byID[id].Kind.GroupKind() == secretKind
			c.graph.Nodes = append(c.graph.Nodes, byID[id].Node)
		}
	}
}
