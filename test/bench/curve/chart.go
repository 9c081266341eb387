package curve

import (
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Chart is a picture of lines on logarithmic axes, on which size^k is a straight line of slope k.
type Chart struct {
	Title string
	// Sizes and Values say what the axes show.
	Sizes, Values string
	Lines         []Line
}

// Line is a measure at several sizes.
type Line struct {
	Name   string
	Points []Point
}

// The places of the parts of a chart, in pixels.
const (
	width      = 720
	left       = 70
	right      = width - 40
	top        = 70
	bottom     = 330
	legend     = bottom + 70 // the first line of the legend
	lineHeight = 22
	// minimumGap is how far the labels of the sizes are apart at least.
	minimumGap = 60
	// manyTicks is how many labels of values at most are at each 1, 2 and 5, instead of at powers of ten.
	manyTicks = 8
)

// style has light colors, and dark ones where the viewer prefers these. Lines also differ by their dashes.
const style = `
    text { font: 12px system-ui, "DejaVu Sans", Helvetica, Arial, sans-serif; fill: #1f2328; }
    .title { font-size: 15px; font-weight: 600; }
    .axis { fill: #59636e; }
    .grid { stroke: #d1d9e0; stroke-width: 1; }
    .line { fill: none; stroke-width: 2; }
    .c0 { stroke: #0969da; } .c1 { stroke: #bc4c00; stroke-dasharray: 7 3; } .c2 { stroke: #1a7f37; stroke-dasharray: 2 3; }
    .c3 { stroke: #8250df; stroke-dasharray: 9 3 2 3; } .c4 { stroke: #cf222e; stroke-dasharray: 4 4; }
    circle.line { stroke-dasharray: none; fill: #ffffff; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3; }
      .axis { fill: #9198a1; }
      .grid { stroke: #3d444d; }
      .c0 { stroke: #4493f8; } .c1 { stroke: #db6d28; } .c2 { stroke: #3fb950; } .c3 { stroke: #ab7df8; } .c4 { stroke: #f85149; }
      circle.line { fill: #0d1117; }
    }
  `

// colors is the number of colors in style.
const colors = 5

// SVG draws the chart. The picture has no scripts and loads nothing. Points without a logarithm are left out.
func (c Chart) SVG() string {
	c = c.drawable()
	p := plot{sizes: c.sizes(), ticks: ticks(c.values())}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img">`+"\n", width, legend+lineHeight*len(c.Lines))
	fmt.Fprintf(&b, "  <title>%s</title>\n  <style>%s</style>\n", escape(c.Title), style)
	fmt.Fprintf(&b, `  <text class="title" x="%d" y="28">%s</text>`+"\n", left, escape(c.Title))
	fmt.Fprintf(&b, `  <text class="axis" x="%d" y="%d">%s</text>`+"\n", left, top-16, escape(c.Values))
	p.drawAxes(&b, c.Sizes)
	for i, l := range c.Lines {
		p.drawLine(&b, l, i)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// drawable returns the chart without the points that have no place in it.
func (c Chart) drawable() Chart {
	lines := make([]Line, len(c.Lines))
	for i, l := range c.Lines {
		lines[i].Name = l.Name
		for _, p := range l.Points {
			if p.drawable() {
				lines[i].Points = append(lines[i].Points, p)
			}
		}
	}
	c.Lines = lines
	return c
}

// sizes returns all sizes, sorted.
func (c Chart) sizes() []float64 {
	return c.all(func(p Point) float64 { return p.Size })
}

// values returns all values, sorted.
func (c Chart) values() []float64 {
	return c.all(func(p Point) float64 { return p.Value })
}

func (c Chart) all(of func(Point) float64) []float64 {
	var out []float64
	for _, l := range c.Lines {
		for _, p := range l.Points {
			out = append(out, of(p))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// ticks returns the labelled values of the axis, which begin below the sorted values and end above them.
func ticks(values []float64) []float64 {
	if len(values) == 0 {
		return []float64{1, 10}
	}
	fine := steps(values[0], values[len(values)-1], 1, 2, 5)
	if len(fine) <= manyTicks {
		return fine
	}
	return steps(values[0], values[len(values)-1], 1)
}

// steps returns the factors times powers of ten, from the last one below a value to the first one above another.
func steps(low, high float64, factors ...float64) []float64 {
	var out []float64
	for power := int(math.Floor(math.Log10(low))) - 1; ; power++ {
		for _, factor := range factors {
			step := factor * math.Pow10(power)
			if step <= low {
				out = out[:0]
			}
			out = append(out, step)
			if step > high {
				return out
			}
		}
	}
}

// plot places points.
type plot struct{ sizes, ticks []float64 }

func (p plot) x(size float64) float64 {
	return between(left, right, share(size, p.sizes))
}

func (p plot) y(value float64) float64 {
	return between(bottom, top, share(value, p.ticks))
}

// share is where a value is between the first and the last one of a sorted list, from 0 to 1; the
// middle if these are the same.
func share(value float64, of []float64) float64 {
	first, last := of[0], of[len(of)-1]
	if first == last {
		return 0.5
	}
	return math.Log(value/first) / math.Log(last/first)
}

func between(from, to, share float64) float64 { return from + (to-from)*share }

func (p plot) drawAxes(b *strings.Builder, sizes string) {
	for _, t := range p.ticks {
		fmt.Fprintf(b, `  <path class="grid" d="M%d %.1fH%d"/><text class="axis" x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n",
			left, p.y(t), right, left-8, p.y(t)+4, number(t))
	}
	labelled := math.Inf(-1)
	for _, s := range p.sizes {
		x := p.x(s)
		fmt.Fprintf(b, `  <path class="grid" d="M%.1f %dV%d"/>`, x, top, bottom)
		if x-labelled >= minimumGap {
			labelled = x
			fmt.Fprintf(b, `<text class="axis" x="%.1f" y="%d" text-anchor="middle">%s</text>`, x, bottom+20, number(s))
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(b, `  <text class="axis" x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", (left+right)/2, bottom+42, escape(sizes))
}

// drawLine draws a line with its points, and its name below the axes.
func (p plot) drawLine(b *strings.Builder, l Line, i int) {
	class := fmt.Sprintf("line c%d", i%colors)
	path := ""
	for j, point := range l.Points {
		path += fmt.Sprintf("%c%.1f %.1f", "ML"[min(j, 1)], p.x(point.Size), p.y(point.Value))
	}
	if path != "" {
		fmt.Fprintf(b, `  <path class="%s" d="%s"/>`+"\n", class, path)
	}
	for _, point := range l.Points {
		fmt.Fprintf(b, `  <circle class="%s" cx="%.1f" cy="%.1f" r="3.5"><title>%s: %s</title></circle>`+"\n",
			class, p.x(point.Size), p.y(point.Value), number(point.Size), number(point.Value))
	}
	y := legend + lineHeight*i
	fmt.Fprintf(b, `  <path class="%s" d="M%d %dh36"/><text x="%d" y="%d">%s</text>`+"\n", class, left, y-4, left+46, y, escape(l.Name))
}

// number formats a number with three digits at most before it is rounded, and groups thousands.
func number(v float64) string {
	if v < 1000 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	digits := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func escape(text string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(text)); err != nil {
		panic(err) // a strings.Builder returns no error
	}
	return b.String()
}
