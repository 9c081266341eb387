package graph_test

import (
	"slices"
	"testing"

	"github.com/espalier-dev/espalier/internal/graph"
)

func TestTopologicalOrder(t *testing.T) {
	cases := map[string]struct {
		reason   string
		declared []*graph.Node
		want     []string
	}{
		"As declared, where nothing depends on anything": {
			"readers look for what they wrote", nodes("b", "", "a", "", "c", ""), []string{"b", "a", "c"},
		},
		"What others need comes before them": {
			"it is topological", nodes("reader", "base", "base", "", "other", ""), []string{"base", "reader", "other"},
		},
		"A chain that was declared backwards": {
			"each step allows for one more", nodes("c", "b", "b", "a", "a", "", "d", ""), []string{"a", "b", "c", "d"},
		},
		"Nothing": {"there is nothing to show", nil, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := graph.Graph{Nodes: slices.Clone(tc.declared)}
			slices.Reverse(g.Nodes)
			if got := g.TopologicalOrder(); !slices.Equal(got, tc.want) {
				t.Errorf("%s: got %v", tc.reason, got)
			}
		})
	}
}

// nodes takes pairs of an id and what that depends on.
func nodes(pairs ...string) (out []*graph.Node) {
	for i := 0; i < len(pairs); i += 2 {
		n := &graph.Node{ID: pairs[i], Index: i / 2}
		if pairs[i+1] != "" {
			n.Dependencies = []string{pairs[i+1]}
		}
		out = append(out, n)
	}
	return out
}
