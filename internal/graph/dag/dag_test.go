package dag_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/espalier-dev/espalier/internal/graph/dag"
)

func TestLayers(t *testing.T) {
	cases := map[string]struct {
		reason string
		edges  map[string][]string
		want   [][]string
		cycle  string
	}{
		"A graph without nodes has no layers": {
			reason: "an instance may consist of nothing",
			edges:  map[string][]string{},
		},
		"Nodes without dependencies share the first layer, sorted": {
			reason: "nothing orders them, so names do",
			edges:  map[string][]string{"b": nil, "a": nil},
			want:   [][]string{{"a", "b"}},
		},
		"A node is in the first layer that its dependencies allow": {
			reason: "what can be applied side by side should be",
			edges:  map[string][]string{"a": nil, "b": {"a"}, "c": {"a", "b"}, "d": {"a"}},
			want:   [][]string{{"a"}, {"b", "d"}, {"c"}},
		},
		"A cycle is reported by its shortest path from its smallest node": {
			reason: "the same mistake must always read the same",
			edges:  map[string][]string{"z": nil, "c": {"a", "z"}, "b": {"c"}, "a": {"b"}, "tail": {"a"}},
			cycle:  "graph contains a cycle: a → b → c → a",
		},
		"A node that depends on itself is a cycle": {
			reason: "it would wait for itself for ever",
			edges:  map[string][]string{"a": {"a"}},
			cycle:  "graph contains a cycle: a → a",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := build(tc.edges).Layers()
			if tc.cycle != "" {
				var cycle *dag.CycleError[string]
				if !errors.As(err, &cycle) || err.Error() != tc.cycle {
					t.Fatalf("%s: want %q, got %v", tc.reason, tc.cycle, err)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestOrderPutsEachNodeAfterItsDependencies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		edges := acyclic(t)
		order, err := build(edges).Order()
		if err != nil {
			t.Fatal(err)
		}
		if len(order) != len(edges) {
			t.Fatalf("%d nodes in, %d out", len(edges), len(order))
		}
		for node, deps := range edges {
			for _, d := range deps {
				if slices.Index(order, d) >= slices.Index(order, node) {
					t.Fatalf("%s comes before %s, which it depends on: %v", node, d, order)
				}
			}
		}
	})
}

func TestReportedCyclesAreCycles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d", "e"}
		edges := map[string][]string{}
		for _, n := range names {
			edges[n] = rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID[string]).Draw(t, n)
		}
		_, err := build(edges).Layers()
		var cycle *dag.CycleError[string]
		if !errors.As(err, &cycle) {
			return
		}
		for i := range len(cycle.Path) - 1 {
			if !slices.Contains(edges[cycle.Path[i]], cycle.Path[i+1]) {
				t.Fatalf("%v: %s does not depend on %s", cycle.Path, cycle.Path[i], cycle.Path[i+1])
			}
		}
	})
}

func build(edges map[string][]string) *dag.Graph[string] {
	nodes := make([]string, 0, len(edges))
	for n := range edges {
		nodes = append(nodes, n)
	}
	g := dag.New(nodes...)
	for n, deps := range edges {
		g.Connect(n, deps...)
	}
	return g
}

func acyclic(t *rapid.T) map[string][]string {
	names := []string{"a", "b", "c", "d", "e", "f"}
	order := rapid.Permutation(names).Draw(t, "order")
	edges := map[string][]string{}
	for i, n := range order {
		edges[n] = nil
		if i > 0 {
			edges[n] = rapid.SliceOfDistinct(rapid.SampledFrom(order[:i]), rapid.ID[string]).Draw(t, n)
		}
	}
	return edges
}
