package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/internal/object"
)

// holdRivals holds nodes that render one and the same object: none of them is meant more
// than the others, and nothing tells what the object should be.
func holdRivals(steps []Step, nodes []Node) {
	renders := map[object.Key][]int{}
	for i, step := range steps {
		if step.Object != nil {
			key := object.KeyOf(step.Object)
			renders[key] = append(renders[key], i)
		}
	}
	for key, rivals := range renders {
		if len(rivals) == 1 {
			continue
		}
		for _, i := range rivals {
			what := key.String()
			if slices.ContainsFunc(rivals, func(at int) bool { return nodes[at].Conceals }) {
				what = "a " + nodes[i].Kind.Kind + " (its name isn't told: it may be what a Secret holds)"
			}
			steps[i] = hold(nodes[i], Problem{Reason: Rejected, Message: fmt.Sprintf("renders %s, which %s too", what, named(others(rivals, i), nodes))})
		}
	}
}

func others(rivals []int, i int) []int {
	var out []int
	for _, other := range rivals {
		if other != i {
			out = append(out, other)
		}
	}
	return out
}

// mostRivals bounds the nodes that a message names.
const mostRivals = 5

// named names nodes, and says that they do something.
func named(which []int, nodes []Node) string {
	if len(which) == 1 {
		return "node " + nodes[which[0]].ID + " renders"
	}
	more := ""
	if len(which) > mostRivals {
		more = fmt.Sprintf(" and %d more", len(which)-mostRivals)
		which = which[:mostRivals]
	}
	ids := make([]string, len(which))
	for i, at := range which {
		ids[i] = nodes[at].ID
	}
	return "nodes " + strings.Join(ids, ", ") + more + " render"
}
