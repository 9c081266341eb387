package graph

import (
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/object/diagram"
)

// Ids in diagrams of what is no node: the instance and its status. No node can have them.
const (
	instanceInDiagram = "schema"
	statusInDiagram   = "schema.status"
)

// KindUnknown is the line of a node in a diagram whose kind was not known when the graph was compiled.
const KindUnknown = "the kind is not known"

// Diagram draws the nodes, with an edge from each to those that read it. A node that reads no other one has an edge
// from the instance, except in a Graph, which has none. Dashed edges come from deleteAfter alone.
func (g *Graph) Diagram() diagram.Diagram {
	out := diagram.Diagram{Title: g.Kind.Kind + "." + g.Kind.Group + "/" + g.Kind.Version}
	if g.standalone == nil {
		out.Nodes = []diagram.Node{{ID: instanceInDiagram, Title: g.Kind.Kind, Lines: []string{"the instance"}}}
	}
	for _, n := range g.NodesInOrder() {
		out.Nodes = append(out.Nodes, n.draw())
		if len(n.Dependencies) == 0 {
			out.Edges = append(out.Edges, diagram.Edge{From: instanceInDiagram, To: n.ID})
		}
		for _, id := range n.Dependencies {
			out.Edges = append(out.Edges, diagram.Edge{From: id, To: n.ID})
		}
		for _, id := range n.DeleteAfter {
			if !slices.Contains(g.node(id).Dependencies, n.ID) {
				out.Edges = append(out.Edges, diagram.Edge{From: n.ID, To: id, Dashed: true, Label: "deleteAfter"})
			}
		}
	}
	if g.status != nil {
		g.drawStatus(&out)
	}
	return out
}

// drawStatus draws the instance's status, if it has values of nodes.
func (g *Graph) drawStatus(out *diagram.Diagram) {
	var read []string
	for _, ref := range g.status.Refs() {
		if g.node(ref.Root) != nil && !slices.Contains(read, ref.Root) {
			read = append(read, ref.Root)
		}
	}
	if len(read) == 0 {
		return
	}
	out.Nodes = append(out.Nodes, diagram.Node{ID: statusInDiagram, Title: "status", Lines: []string{"of the instance"}, Shape: diagram.Rounded})
	for _, id := range read {
		out.Edges = append(out.Edges, diagram.Edge{From: id, To: statusInDiagram})
	}
}

func (n *Node) draw() diagram.Node {
	out := diagram.Node{ID: n.ID, Title: n.ID}
	switch {
	case n.Variable:
		out.Shape, out.Lines = diagram.Rounded, []string{"value"}
	case n.Patch:
		out.Shape, out.Lines = diagram.Dashed, []string{n.Kind.Kind, "patch"}
	case n.External:
		out.Shape, out.Lines = diagram.Dashed, []string{n.Kind.Kind, "external"}
	case n.Collection:
		out.Shape, out.Lines = diagram.Stacked, []string{n.Kind.Kind}
	default:
		out.Lines = []string{n.Kind.Kind}
	}
	if !n.Variable && !n.KindKnown {
		out.Lines = append(out.Lines, KindUnknown)
	}
	if n.forEach != nil {
		for _, d := range n.forEach.dimensions {
			out.Lines = append(out.Lines, "for each "+d.iterator+" in "+oneLine(d.list))
		}
	}
	for _, condition := range n.includeWhen {
		out.Lines = append(out.Lines, "if "+oneLine(condition))
	}
	return out
}

func oneLine(p *expr.Program) string { return strings.Join(strings.Fields(p.Source()), " ") }
