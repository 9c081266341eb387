package diagram

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// style has light colors, and dark ones where the viewer prefers these.
const style = `
    text { font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #1f2328; }
    .title { font-weight: 600; }
    .detail { fill: #59636e; }
    .node rect { fill: #ffffff; stroke: #818b98; stroke-width: 1.5; }
    .dashed rect { stroke-dasharray: 5 3; }
    .good rect { stroke: #1a7f37; }
    .progress rect { stroke: #9a6700; }
    .bad rect { stroke: #cf222e; stroke-width: 2.5; }
    .muted { opacity: 0.6; }
    .edge { fill: none; stroke: #818b98; stroke-width: 1.3; }
    .later { stroke-dasharray: 5 3; }
    .arrow { fill: #818b98; }
    .label { font-size: 10px; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3; }
      .detail { fill: #9198a1; }
      .node rect { fill: #161b22; stroke: #656c76; }
      .good rect { stroke: #3fb950; }
      .progress rect { stroke: #d29922; }
      .bad rect { stroke: #f85149; }
      .edge { stroke: #656c76; }
      .arrow { fill: #656c76; }
    }
  `

// SVG draws the diagram. The picture has no scripts and loads nothing.
func (d Diagram) SVG() string { return Place(d).SVG(d.Title) }

// SVG draws a layout.
func (l Layout) SVG(title string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img">`+"\n", l.Width, l.Height)
	fmt.Fprintf(&b, "  <title>%s</title>\n  <style>%s</style>\n", xmlText(title), style)
	b.WriteString(`  <defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path class="arrow" d="M0 0 8 4 0 8z"/></marker></defs>` + "\n")
	for _, e := range l.Edges {
		l.drawEdge(&b, e)
	}
	for _, n := range l.Nodes {
		n.draw(&b)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (l Layout) drawEdge(b *strings.Builder, e PlacedEdge) {
	class := "edge"
	if e.Dashed {
		class += " later"
	}
	fmt.Fprintf(b, `  <path class="%s" d="%s" marker-end="url(#arrow)"><title>%s</title></path>`+"\n", class, e.Path(), xmlText(e.From+" → "+e.To))
	if e.Label != "" {
		from, to := e.Points[(len(e.Points)-1)/2], e.Points[len(e.Points)/2]
		if from == to {
			to = e.Points[len(e.Points)/2+1]
		}
		fmt.Fprintf(b, `  <text class="label" x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", (from.X+to.X)/2, (from.Y+to.Y)/2-4, xmlText(short(e.Label)))
	}
}

// Path is the way of the edge, as the d of a path in SVG.
func (e PlacedEdge) Path() string {
	path := fmt.Sprintf("M%d %d", e.Points[0].X, e.Points[0].Y)
	for i := 1; i < len(e.Points); i++ {
		from, to := e.Points[i-1], e.Points[i]
		if from.Y == to.Y {
			path += fmt.Sprintf(" H%d", to.X)
			continue
		}
		middle := (from.X + to.X) / 2
		path += fmt.Sprintf(" C%d %d %d %d %d %d", middle, from.Y, middle, to.Y, to.X, to.Y)
	}
	return path
}

func (n PlacedNode) draw(b *strings.Builder) {
	class := "node"
	for _, more := range []string{string(n.Shape), string(n.Tone)} {
		if more != "" {
			class += " " + more
		}
	}
	fmt.Fprintf(b, `  <g class="%s"><title>%s</title>`+"\n", class, xmlText(strings.Join(n.lines(), "\n")))
	radius := 4
	if n.Shape == Rounded {
		radius = n.Height / 2
	}
	if n.Shape == Stacked {
		fmt.Fprintf(b, `    <rect x="%d" y="%d" width="%d" height="%d" rx="%d"/>`+"\n", n.X+4, n.Y+4, n.Width, n.Height, radius)
	}
	fmt.Fprintf(b, `    <rect x="%d" y="%d" width="%d" height="%d" rx="%d"/>`+"\n", n.X, n.Y, n.Width, n.Height, radius)
	for i, line := range n.lines() {
		class := "detail"
		if i == 0 {
			class = "title"
		}
		fmt.Fprintf(b, `    <text class="%s" x="%d" y="%d">%s</text>`+"\n", class, n.X+padding, n.Y+padding/2+(i+1)*lineHeight-5, xmlText(short(line)))
	}
	b.WriteString("  </g>\n")
}

func xmlText(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(strings.TrimSpace(printableLines(text)))) // a strings.Builder never fails
	return b.String()
}

// printableLines is printable, but keeps the ends of lines.
func printableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = printable(line)
	}
	return strings.Join(lines, "\n")
}
