// Package diagram draws directed graphs: in the languages of Graphviz and Mermaid, and as SVG with a layout of its own.
// The same diagram gives the same bytes.
//
// Begin with Diagram; Place computes the layout, SVG draws it.
//
// Pure: it decides from values alone.
package diagram

import (
	"slices"
	"strings"
)

// Diagram is a directed graph. An edge whose ends are not both nodes is left out of drawings.
type Diagram struct {
	// Title says what is drawn, for the title of the picture.
	Title string
	Nodes []Node
	Edges []Edge
}

// Node is a box with lines of text.
type Node struct {
	// ID is unique in a diagram.
	ID string
	// Title is the first line, and Lines are below it.
	Title string
	Lines []string
	Shape Shape
	Tone  Tone
}

// Shape is how the border of a node is drawn.
type Shape string

// Shapes.
const (
	Box Shape = ""
	// Dashed: the object belongs to another owner.
	Dashed Shape = "dashed"
	// Rounded: a value, and no object.
	Rounded Shape = "rounded"
	// Stacked: several objects.
	Stacked Shape = "stacked"
)

// Tone is the color of a node.
type Tone string

// Tones.
const (
	Neutral  Tone = ""
	Good     Tone = "good"
	Progress Tone = "progress"
	Bad      Tone = "bad"
	// Muted: what is skipped, or does not exist.
	Muted Tone = "muted"
)

// Edge leads from what is needed to what needs it.
type Edge struct {
	From, To string
	// Dashed: the edge is about something else than values that are read.
	Dashed bool
	Label  string
}

// known returns the edges between nodes of the diagram that are not the same, without repetitions.
func (d Diagram) known() []Edge {
	index := d.index()
	var out []Edge
	for _, e := range d.Edges {
		_, from := index[e.From]
		_, to := index[e.To]
		if from && to && e.From != e.To && !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	return out
}

// index returns the place of each node in Nodes.
func (d Diagram) index() map[string]int {
	out := make(map[string]int, len(d.Nodes))
	for i, n := range d.Nodes {
		out[n.ID] = i
	}
	return out
}

// lines returns all lines of a node.
func (n Node) lines() []string { return append([]string{n.Title}, n.Lines...) }

// maxLine is the length in characters of the longest line in a drawing.
const maxLine = 44

// short returns a line as it is drawn.
func short(line string) string {
	runes := []rune(line)
	if len(runes) <= maxLine {
		return line
	}
	return string(runes[:maxLine-1]) + "…"
}

// printable replaces characters that no drawing can have.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n':
			return ' '
		case r < ' ' || r == 0x7f || r == 0xfffe || r == 0xffff:
			return '�'
		}
		return r
	}, strings.ToValidUTF8(text, "�"))
}
