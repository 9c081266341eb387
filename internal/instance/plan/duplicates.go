package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/internal/object"
)

// The nodes render the same object: which of them should win isn't known.
func deferDuplicates(steps []Step, nodes []Node) {
	renders := map[object.Key][]int{}
	for i, step := range steps {
		o := step.Object
		if nodes[i].Contribution != nil {
			o = nodes[i].Object
		}
		if o != nil {
			renders[object.KeyOf(o)] = append(renders[object.KeyOf(o)], i)
		}
	}
	for key, duplicates := range renders {
		if len(duplicates) == 1 || contributeApart(nodes, duplicates) {
			continue
		}
		for _, i := range duplicates {
			what := key.String()
			if slices.ContainsFunc(duplicates, func(at int) bool { return nodes[at].Sensitive }) {
				what = "a " + nodes[i].Kind.Kind + " (name redacted: it may come from a Secret)"
			}
			steps[i] = deferred(nodes[i], Problem{Reason: Rejected, Message: fmt.Sprintf("renders %s, which %s too", what, describeNodes(others(duplicates, i), nodes))})
		}
	}
}

func others(duplicates []int, i int) []int {
	var out []int
	for _, other := range duplicates {
		if other != i {
			out = append(out, other)
		}
	}
	return out
}

// maxDuplicates bounds the nodes that a message names.
const maxDuplicates = 5

func describeNodes(which []int, nodes []Node) string {
	if len(which) == 1 {
		return "node " + nodes[which[0]].ID + " renders"
	}
	more := ""
	if len(which) > maxDuplicates {
		more = fmt.Sprintf(" and %d more", len(which)-maxDuplicates)
		which = which[:maxDuplicates]
	}
	ids := make([]string, len(which))
	for i, at := range which {
		ids[i] = nodes[at].ID
	}
	return "nodes " + strings.Join(ids, ", ") + more + " render"
}
