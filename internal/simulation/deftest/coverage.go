package deftest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
)

// Coverage is which nodes and branches of definitions tests have reached. Its zero value is empty.
type Coverage struct {
	kinds map[schema.GroupKind]map[string]*reached
	// facts are what instances were composed from: their conditional expressions are evaluated with them again.
	facts map[schema.GroupKind][]plan.Facts
}

// maxFacts bounds the compositions of one kind whose conditional expressions are counted.
const maxFacts = 10_000

// reached is what has been reached of a node.
type reached struct {
	// existed says that its object was wanted, or read; skipped, that it was left out.
	existed, skipped bool
	// items is the greatest number of objects of a collection.
	items int
}

// Add adds what was decided for an instance, and the facts that it was decided from.
func (c *Coverage) Add(instance object.Key, facts plan.Facts, p plan.Plan) {
	if c.kinds == nil {
		c.kinds, c.facts = map[schema.GroupKind]map[string]*reached{}, map[schema.GroupKind][]plan.Facts{}
	}
	if known := c.facts[instance.GroupKind()]; len(known) < maxFacts {
		facts.Owned, facts.External = maps.Clone(facts.Owned), maps.Clone(facts.External)
		c.facts[instance.GroupKind()] = append(known, facts)
	}
	nodes := c.kinds[instance.GroupKind()]
	if nodes == nil {
		nodes = map[string]*reached{}
		c.kinds[instance.GroupKind()] = nodes
	}
	items := map[string]int{}
	for _, step := range p.Steps {
		id, _, _ := strings.Cut(step.Node, "[") // an item of a collection
		n := nodes[id]
		if n == nil {
			n = &reached{}
			nodes[id] = n
		}
		switch step.Action {
		case plan.Skip:
			n.skipped = true
		case plan.Defer:
		default:
			n.existed = true
			items[id]++
		}
	}
	for id, count := range items {
		nodes[id].items = max(nodes[id].items, count)
	}
}

// Merge adds what another coverage has.
func (c *Coverage) Merge(other Coverage) {
	for kind, facts := range other.facts {
		if c.facts == nil {
			c.facts = map[schema.GroupKind][]plan.Facts{}
		}
		c.facts[kind] = append(c.facts[kind], facts...)
	}
	for kind, nodes := range other.kinds {
		for id, n := range nodes {
			if c.kinds == nil {
				c.kinds = map[schema.GroupKind]map[string]*reached{}
			}
			if c.kinds[kind] == nil {
				c.kinds[kind] = map[string]*reached{}
			}
			is := c.kinds[kind][id]
			if is == nil {
				is = &reached{}
				c.kinds[kind][id] = is
			}
			is.existed, is.skipped, is.items = is.existed || n.existed, is.skipped || n.skipped, max(is.items, n.items)
		}
	}
}

// KindCoverage is the coverage of one definition.
type KindCoverage struct {
	Kind string `json:"kind"`
	// Reached and Total count the branches: that a node exists, and that it is left out where it can be;
	// that a collection has an object, and several; that the condition of c ? a : b is true, and false.
	Reached int `json:"reached"`
	Total   int `json:"total"`
	// Missing are the branches that no test has reached.
	Missing []string `json:"missing,omitempty"`
}

// Of returns the coverage of a definition.
func (c *Coverage) Of(kind schema.GroupKind, g *graph.Graph) KindCoverage {
	out := KindCoverage{Kind: kind.Kind}
	count := func(is bool, missing string) {
		out.Total++
		if is {
			out.Reached++
			return
		}
		out.Missing = append(out.Missing, missing)
	}
	for _, n := range g.Nodes {
		if n.Variable {
			continue
		}
		r := c.kinds[kind][n.ID]
		if r == nil {
			r = &reached{}
		}
		count(r.existed, n.ID+" never exists")
		if n.IsConditional() {
			count(r.skipped, n.ID+" is never left out")
		}
		if n.Collection && !n.External {
			count(r.items > 1, n.ID+" never has several objects")
		}
	}
	var branches expr.Branches
	for _, facts := range c.facts[kind] {
		g.RecordBranches(&branches, facts)
	}
	for _, b := range branches.List() {
		count(b.True, fmt.Sprintf("%s: %s is never true", b.At, b.Condition))
		count(b.False, fmt.Sprintf("%s: %s is never false", b.At, b.Condition))
	}
	return out
}

// CoverageText returns the coverage of definitions as text, a line for each, with what is missing.
func CoverageText(all []KindCoverage) string {
	var b strings.Builder
	for _, k := range slices.SortedFunc(slices.Values(all), func(a, b KindCoverage) int { return strings.Compare(a.Kind, b.Kind) }) {
		percent := 100
		if k.Total > 0 {
			percent = 100 * k.Reached / k.Total
		}
		fmt.Fprintf(&b, "coverage: %s: %d of %d branches (%d%%)\n", k.Kind, k.Reached, k.Total, percent)
		for _, missing := range k.Missing {
			b.WriteString("  never reached: " + missing + "\n")
		}
	}
	return b.String()
}
