package page

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestTreesArePlacedWithoutOverlaps places random trees: no box overlaps another one, and no line leaves the gap behind an instance.
func TestTreesArePlacedWithoutOverlaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []*treeNode
		var grow func(depth int) *treeNode
		grow = func(depth int) *treeNode {
			n := &treeNode{id: fmt.Sprint(len(all))}
			all = append(all, n)
			for range rapid.IntRange(0, 9-3*depth).Draw(t, "children") {
				child := grow(depth + 1)
				child.isForeign = len(child.children) == 0 && rapid.Bool().Draw(t, "foreign")
				n.children = append(n.children, child)
			}
			return n
		}
		l := placeTree(grow(0))
		for i, a := range all {
			if a.x < 0 || a.y < 0 || a.x+boxWidth > l.Width || a.y+boxHeight > l.Height {
				t.Fatalf("%s at %d, %d is outside of %d×%d", a.id, a.x, a.y, l.Width, l.Height)
			}
			for _, b := range all[:i] {
				if a.x < b.x+boxWidth && b.x < a.x+boxWidth && a.y < b.y+boxHeight && b.y < a.y+boxHeight {
					t.Fatalf("%s and %s overlap", a.id, b.id)
				}
			}
		}
		for _, line := range l.Lines {
			var x, y, end, skip int
			if n, _ := fmt.Sscanf(line, "M%d %d H%d", &x, &y, &end); n < 3 {
				if n, _ = fmt.Sscanf(line, "M%d %d C%d %d %d %d %d", &x, &y, &skip, &skip, &skip, &skip, &end); n < 7 {
					t.Fatalf("the line %q has another form", line)
				}
			}
			if end-x != columnGap {
				t.Fatalf("the line %q is not in a gap", line)
			}
		}
	})
}
