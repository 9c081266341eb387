package diagram

import (
	"fmt"
	"strings"
)

// Dot returns the diagram in the language of Graphviz.
func (d Diagram) Dot() string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n  rankdir=LR;\n  node [shape=box, fontname=\"monospace\", fontsize=11];\n", dotText(d.Title))
	for _, n := range d.Nodes {
		lines := make([]string, 0, 1+len(n.Lines))
		for _, line := range n.lines() {
			lines = append(lines, dotEscape(line))
		}
		attributes := []string{`label="` + strings.Join(lines, `\n`) + `"`}
		switch n.Shape {
		case Dashed:
			attributes = append(attributes, `style=dashed`)
		case Rounded:
			attributes = append(attributes, `style=rounded`)
		case Stacked:
			attributes = append(attributes, `peripheries=2`)
		case Box:
		}
		if color := dotColors[n.Tone]; color != "" {
			attributes = append(attributes, `color="`+color+`"`)
		}
		fmt.Fprintf(&b, "  %s [%s];\n", dotText(n.ID), strings.Join(attributes, ", "))
	}
	for _, e := range d.known() {
		var attributes []string
		if e.Dashed {
			attributes = append(attributes, "style=dashed")
		}
		if e.Label != "" {
			attributes = append(attributes, "label="+dotText(e.Label))
		}
		suffix := ""
		if len(attributes) > 0 {
			suffix = " [" + strings.Join(attributes, ", ") + "]"
		}
		fmt.Fprintf(&b, "  %s -> %s%s;\n", dotText(e.From), dotText(e.To), suffix)
	}
	b.WriteString("}\n")
	return b.String()
}

var dotColors = map[Tone]string{Good: "#1a7f37", Progress: "#9a6700", Bad: "#cf222e", Muted: "#8c959f"}

var dotEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

func dotEscape(text string) string { return dotEscapes.Replace(printable(text)) }

func dotText(text string) string { return `"` + dotEscape(text) + `"` }

// Mermaid returns the diagram as a flowchart in the language of Mermaid, which many Markdown viewers draw.
func (d Diagram) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	index := d.index()
	used := map[Tone]bool{}
	for i, n := range d.Nodes {
		lines := make([]string, 0, 1+len(n.Lines))
		for _, line := range n.lines() {
			lines = append(lines, mermaidText(line))
		}
		begin, end := "[", "]"
		switch n.Shape {
		case Rounded:
			begin, end = "(", ")"
		case Stacked:
			begin, end = "[[", "]]"
		case Box, Dashed:
		}
		class := ""
		if n.Tone != Neutral {
			class, used[n.Tone] = ":::"+string(n.Tone), true
		}
		fmt.Fprintf(&b, "  n%d%s\"%s\"%s%s\n", i, begin, strings.Join(lines, "<br/>"), end, class)
		if n.Shape == Dashed {
			fmt.Fprintf(&b, "  style n%d stroke-dasharray:4\n", i)
		}
	}
	for _, e := range d.known() {
		arrow := "-->"
		if e.Dashed {
			arrow = "-.->"
		}
		if e.Label != "" {
			arrow += `|"` + mermaidText(e.Label) + `"|`
		}
		fmt.Fprintf(&b, "  n%d %s n%d\n", index[e.From], arrow, index[e.To])
	}
	for _, tone := range []Tone{Good, Progress, Bad, Muted} {
		if used[tone] {
			fmt.Fprintf(&b, "  classDef %s stroke:%s\n", tone, dotColors[tone])
		}
	}
	return b.String()
}

// mermaidText escapes what has a meaning in a quoted label: it is HTML, and # begins an entity.
func mermaidText(text string) string {
	var b strings.Builder
	for _, r := range printable(text) {
		switch r {
		case '"', '<', '>', '&', '#', ';', '`', '\\':
			fmt.Fprintf(&b, "#%d;", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
