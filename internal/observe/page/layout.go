package page

import "fmt"

// Measures of the drawing of a tree, in pixels of CSS.
const (
	boxWidth    = 216
	boxHeight   = 66
	columnGap   = 48
	rowGap      = 12
	cellGap     = 40 // between the columns of a frame: flows of data turn there
	framePad    = 10
	groupGap    = 22
	targetWidth = 940 // of the picture in a window of 1440 × 900, beside the panel
	targetHigh  = 630
)

// treeNode is a node of a tree that is placed: the resources below it are its children.
type treeNode struct {
	id       string
	children []*treeNode
	// isForeign is true for what is read and belongs to another owner: nothing contains it.
	isForeign bool
	x, y      int
}

// frame is a rectangle around the children of an instance that contain nothing themselves.
type frame struct {
	X       int  `json:"x"`
	Y       int  `json:"y"`
	Width   int  `json:"width"`
	Height  int  `json:"height"`
	Foreign bool `json:"foreign,omitempty"`
}

// layout is a placed tree: columns are levels of containment. Lines lead from an instance to each child with children of its own, and
// to the frame of the others; each is within the gap behind its instance, so that none runs beneath a box.
type layout struct {
	Width  int      `json:"width"`
	Height int      `json:"height"`
	Frames []frame  `json:"frames,omitempty"`
	Lines  []string `json:"lines,omitempty"`
}

// placeTree places a tree. A frame has as many rows as still fit the window; if nothing fits, those that need the least reduction.
func placeTree(root *treeNode) layout {
	best, least := 1, 0.0
	for rows := 1; rows <= root.mostChildren(); rows++ {
		l := layout{}
		l.put(root, 0, 0, rows)
		if over := max(float64(l.Width)/targetWidth, float64(l.Height)/targetHigh); rows == 1 || over < least || over <= 1 {
			best, least = rows, over
		}
	}
	out := layout{}
	out.put(root, 0, 0, best)
	return out
}

func (n *treeNode) mostChildren() int {
	most := len(n.children)
	for _, c := range n.children {
		most = max(most, c.mostChildren())
	}
	return most
}

// put places a tree with its upper left corner at a point, and returns its size.
func (l *layout) put(n *treeNode, x, y, rows int) (width, height int) {
	left, top := x+boxWidth+columnGap, y
	var ends []int
	grow := func(w, h int, isContained bool) {
		if isContained {
			ends = append(ends, top+h/2)
		}
		width, top = max(width, w), top+h+groupGap
	}
	var own, foreign, branches []*treeNode
	for _, c := range n.children {
		switch {
		case c.isForeign:
			foreign = append(foreign, c)
		case len(c.children) > 0:
			branches = append(branches, c)
		default:
			own = append(own, c)
		}
	}
	if len(own) > 0 {
		w, h := l.putFrame(own, left, top, rows, false)
		grow(w, h, true)
	}
	for _, c := range branches {
		w, h := l.put(c, left, top, rows)
		ends = append(ends, c.y+boxHeight/2)
		grow(w, h, false)
	}
	if len(foreign) > 0 {
		w, h := l.putFrame(foreign, left, top, rows, true)
		grow(w, h, false)
	}
	if width > 0 {
		width += columnGap
	}
	width, height = width+boxWidth, max(top-groupGap-y, boxHeight)
	n.x, n.y = x, y+(height-boxHeight)/2
	for _, end := range ends {
		from, middle := n.y+boxHeight/2, left-columnGap/2
		if from == end {
			l.Lines = append(l.Lines, fmt.Sprintf("M%d %d H%d", x+boxWidth, from, left))
			continue
		}
		l.Lines = append(l.Lines, fmt.Sprintf("M%d %d C%d %d %d %d %d %d", x+boxWidth, from, middle, from, middle, end, left, end))
	}
	l.Width, l.Height = max(l.Width, x+width), max(l.Height, y+height)
	return width, height
}

// putFrame places nodes in a frame, column by column.
func (l *layout) putFrame(all []*treeNode, x, y, rows int, isForeign bool) (width, height int) {
	columns := (len(all) + rows - 1) / rows
	rows = (len(all) + columns - 1) / columns
	for i, c := range all {
		c.x, c.y = x+framePad+i/rows*(boxWidth+cellGap), y+framePad+i%rows*(boxHeight+rowGap)
	}
	f := frame{x, y, columns*(boxWidth+cellGap) - cellGap + 2*framePad, rows*(boxHeight+rowGap) - rowGap + 2*framePad, isForeign}
	l.Frames = append(l.Frames, f)
	return f.Width, f.Height
}
