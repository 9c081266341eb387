package diagram

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

// Layout is a diagram with the place of everything. The unit is a pixel of CSS.
type Layout struct {
	Width, Height int
	Nodes         []PlacedNode
	Edges         []PlacedEdge
}

// PlacedNode is a node with its box; X and Y are its upper left corner.
type PlacedNode struct {
	Node
	X, Y, Width, Height int
}

// PlacedEdge is an edge with the points that it goes through: the first is at the right side of a node, the last
// at the left side of another one.
type PlacedEdge struct {
	Edge
	Points []Point
}

// Point is a place.
type Point struct{ X, Y int }

// Measures of drawings.
const (
	characterWidth = 7.3 // of a monospace font of 12 pixels
	lineHeight     = 17
	padding        = 10
	columnGap      = 56
	rowGap         = 18
	margin         = 12
	// wireHeight is what an edge takes where it passes a column.
	wireHeight = 6
)

// Place computes a layout in columns, after Sugiyama, Tagawa and Toda (1981): each node is in the column behind the last of those
// that it depends on; nodes of a column are ordered by the mean place of their neighbors, so that few edges cross; and an edge
// that passes a column has a place in it. Edges that close a cycle are drawn backwards and do not count.
func Place(d Diagram) Layout {
	p := newPlacing(d)
	p.rank()
	p.fillColumns()
	p.order()
	p.setPositions()
	return p.layout()
}

// cell is a node in a column, or the place of an edge that passes it.
type cell struct {
	node          int // in Diagram.Nodes; -1 for an edge that passes
	width, height int
	column        int
	x, y          int
	// before and after are the cells that an edge connects it with.
	before, after []*cell
}

type placing struct {
	diagram Diagram
	edges   []Edge
	cells   []*cell // of the nodes, as in the diagram
	// backward are the edges that close a cycle.
	backward map[Edge]bool
	columns  [][]*cell
	routes   [][]*cell // for each edge, from its first to its last cell
}

func newPlacing(d Diagram) *placing {
	p := &placing{diagram: d, edges: d.known(), backward: map[Edge]bool{}}
	for i, n := range d.Nodes {
		longest := 0
		for _, line := range n.lines() {
			longest = max(longest, utf8.RuneCountInString(short(line)))
		}
		p.cells = append(p.cells, &cell{node: i, width: int(characterWidth*float64(longest)) + 2*padding, height: lineHeight*len(n.lines()) + padding})
	}
	return p
}

// rank puts each node into its column.
func (p *placing) rank() {
	index := p.diagram.index()
	next := make([][]Edge, len(p.cells))
	for _, e := range p.edges {
		next[index[e.From]] = append(next[index[e.From]], e)
	}
	// A search in depth finds the edges that lead back, and an order in which the others lead forward.
	const open, done = 1, 2
	state := make([]int, len(p.cells))
	var order []int
	var visit func(i int)
	visit = func(i int) {
		state[i] = open
		for _, e := range next[i] {
			switch to := index[e.To]; state[to] {
			case open:
				p.backward[e] = true
			case done:
			default:
				visit(to)
			}
		}
		state[i] = done
		order = append(order, i)
	}
	for i := range p.cells {
		if state[i] == 0 {
			visit(i)
		}
	}
	for _, i := range slices.Backward(order) {
		for _, e := range next[i] {
			if to := p.cells[index[e.To]]; !p.backward[e] {
				to.column = max(to.column, p.cells[i].column+1)
			}
		}
	}
}

// fillColumns collects the cells of each column, with those of passing edges, and connects them.
func (p *placing) fillColumns() {
	for _, c := range p.cells {
		for len(p.columns) <= c.column {
			p.columns = append(p.columns, nil)
		}
		p.columns[c.column] = append(p.columns[c.column], c)
	}
	index := p.diagram.index()
	for _, e := range p.edges {
		from, to := p.cells[index[e.From]], p.cells[index[e.To]]
		route := []*cell{from}
		for column := from.column + 1; column < to.column; column++ {
			wire := &cell{node: -1, height: wireHeight, column: column}
			p.columns[column] = append(p.columns[column], wire)
			route = append(route, wire)
		}
		route = append(route, to)
		p.routes = append(p.routes, route)
		if p.backward[e] {
			continue
		}
		for i := 1; i < len(route); i++ {
			route[i-1].after = append(route[i-1].after, route[i])
			route[i].before = append(route[i].before, route[i-1])
		}
	}
}

// sweeps is how often the columns are ordered in each direction.
const sweeps = 6

// order orders the cells of each column by their neighbors, and keeps the order with the fewest crossings.
func (p *placing) order() {
	best, fewest := p.copyColumns(), p.crossings()
	for i := range 2 * sweeps {
		forward := i%2 == 0
		for n := range p.columns {
			column := p.columns[n]
			if !forward {
				column = p.columns[len(p.columns)-1-n]
			}
			p.orderColumn(column, forward)
		}
		if found := p.crossings(); found < fewest {
			best, fewest = p.copyColumns(), found
		}
	}
	p.columns = best
}

func (p *placing) copyColumns() [][]*cell {
	out := make([][]*cell, len(p.columns))
	for i := range p.columns {
		out[i] = slices.Clone(p.columns[i])
	}
	return out
}

// orderColumn orders one column by the mean place of the neighbors on one side. What has none keeps its place.
func (p *placing) orderColumn(column []*cell, forward bool) {
	place := map[*cell]float64{}
	for i, c := range column {
		neighbors := c.after
		if forward {
			neighbors = c.before
		}
		place[c] = float64(i)
		if len(neighbors) > 0 {
			sum := 0
			for _, other := range neighbors {
				sum += slices.Index(p.columns[other.column], other)
			}
			place[c] = float64(sum) / float64(len(neighbors))
		}
	}
	slices.SortStableFunc(column, func(a, b *cell) int { return cmp.Compare(place[a], place[b]) })
}

// crossings counts the edges that cross between neighboring columns.
func (p *placing) crossings() int {
	total := 0
	for n := 0; n+1 < len(p.columns); n++ {
		place := map[*cell]int{}
		for i, c := range p.columns[n+1] {
			place[c] = i
		}
		var ends []int // of the edges, ordered by their beginnings
		for _, c := range p.columns[n] {
			var own []int
			for _, other := range c.after {
				own = append(own, place[other])
			}
			slices.Sort(own)
			ends = append(ends, own...)
		}
		for i, end := range ends {
			for _, earlier := range ends[:i] {
				if earlier > end {
					total++
				}
			}
		}
	}
	return total
}

// setPositions sets the coordinates: columns side by side, and each cell as near as possible to the middle of its neighbors.
func (p *placing) setPositions() {
	x := margin
	for _, column := range p.columns {
		widest, y := 0, 0
		for _, c := range column {
			c.x, c.y = x, y
			widest = max(widest, c.width)
			y += c.height + rowGap
		}
		for _, c := range column {
			if c.node < 0 {
				c.width = widest
			}
		}
		x += widest + columnGap
	}
	for i := range 2 * sweeps {
		for n := range p.columns {
			if i%2 == 0 {
				align(p.columns[n], func(c *cell) []*cell { return c.before })
			} else {
				align(p.columns[len(p.columns)-1-n], func(c *cell) []*cell { return c.after })
			}
		}
	}
	top := 0
	for i, c := range slices.Concat(p.columns...) {
		if i == 0 || c.y < top {
			top = c.y
		}
	}
	for _, c := range slices.Concat(p.columns...) {
		c.y += margin - top
	}
}

// align moves the cells of a column towards the middle of their neighbors, in their order and without overlaps.
func align(column []*cell, neighbors func(*cell) []*cell) {
	wanted := make([]int, len(column))
	for i, c := range column {
		wanted[i] = c.y
		if near := neighbors(c); len(near) > 0 {
			sum := 0
			for _, other := range near {
				sum += other.y + other.height/2
			}
			wanted[i] = sum/len(near) - c.height/2
		}
	}
	// Cells that would overlap form a block, which is placed at the mean of what its cells want.
	type block struct{ first, end, sum, height int }
	var blocks []block
	for i, c := range column {
		b := block{first: i, end: i + 1, sum: wanted[i], height: c.height + rowGap}
		for len(blocks) > 0 {
			last := blocks[len(blocks)-1]
			if last.sum/(last.end-last.first)+last.height <= b.sum/(b.end-b.first) {
				break
			}
			blocks = blocks[:len(blocks)-1]
			b = block{first: last.first, end: b.end, sum: last.sum + b.sum - last.height*(b.end-b.first), height: last.height + b.height}
		}
		blocks = append(blocks, b)
	}
	for _, b := range blocks {
		y := b.sum / (b.end - b.first)
		for _, c := range column[b.first:b.end] {
			c.y = y
			y += c.height + rowGap
		}
	}
}

// columnEnd is where the widest box of a column ends.
func (p *placing) columnEnd(column int) int {
	end := 0
	for _, c := range p.columns[column] {
		end = max(end, c.x+c.width)
	}
	return end
}

func (p *placing) layout() Layout {
	out := Layout{Width: 2 * margin, Height: 2 * margin}
	for i, c := range p.cells {
		out.Nodes = append(out.Nodes, PlacedNode{p.diagram.Nodes[i], c.x, c.y, c.width, c.height})
	}
	for _, c := range slices.Concat(p.columns...) {
		out.Width, out.Height = max(out.Width, c.x+c.width+margin), max(out.Height, c.y+c.height+margin)
	}
	for i, route := range p.routes {
		last := len(route) - 1
		from := route[0].y + route[0].height/2
		points := []Point{{route[0].x + route[0].width, from}}
		if end := p.columnEnd(route[0].column); end > points[0].X && route[last].column > route[0].column {
			points = append(points, Point{end, from}) // before it turns: wider boxes of the column are above and below
		}
		for _, wire := range route[1:last] {
			y := wire.y + wire.height/2
			points = append(points, Point{wire.x, y}, Point{wire.x + wire.width, y})
		}
		points = append(points, Point{route[last].x, route[last].y + route[last].height/2})
		out.Edges = append(out.Edges, PlacedEdge{p.edges[i], points})
	}
	return out
}
