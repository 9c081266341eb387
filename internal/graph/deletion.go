package graph

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/dag"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// planDeletion checks what the author says of how instances are taken apart.
func planDeletion(c *compilation) {
	c.graph.Defaults.OnDelete = map[string]v1alpha1.DeletionPolicy{}
	if d := c.spec.Deletion; d != nil {
		c.graph.Defaults.Timeout = c.limit(d.Timeout, "spec.deletion.timeout")
		c.graph.Defaults.ForceAfter = c.limit(d.ForceAfter, "spec.deletion.forceAfter")
	}
	written := map[string]bool{}
	for _, d := range c.drafts {
		written[d.ID] = d.writes()
	}
	for _, d := range c.drafts {
		c.checkDeletionPolicy(d)
		c.checkDeleteAfter(d, written)
	}
	for _, n := range c.graph.Nodes {
		n.under = c.graph.under(n.Dependencies)
	}
	c.checkDeletionOrder()
}

func (c *compilation) limit(d *metav1.Duration, at object.Path) time.Duration {
	if d == nil {
		return 0
	}
	if d.Duration <= 0 {
		c.problems.Addf(at, "must be longer than nothing, such as 10m")
	}
	return d.Duration
}

func (c *compilation) checkDeletionPolicy(d *draft) {
	policy := d.source.DeletionPolicy.Plain()
	switch {
	case policy != "" && d.Variable:
		c.problems.Addf(d.at.Field("deletionPolicy"), noObject)
	case policy == "", policy == v1alpha1.DeletionDelete:
	case !policy.Valid():
		c.problems.Addf(d.at.Field("deletionPolicy"), "is %q; it can be Delete, Orphan or Retain", policy)
	case d.External:
		c.problems.Addf(d.at.Field("deletionPolicy"), "has no meaning for externalRef: what somebody else keeps is never deleted")
	default:
		d.OnDelete = policy
		c.graph.Defaults.OnDelete[d.ID] = policy
	}
}

func (c *compilation) checkDeleteAfter(d *draft, written map[string]bool) {
	for i, id := range d.source.DeleteAfter {
		at := d.at.Field("deleteAfter").Index(i)
		kept, known := written[id]
		switch {
		case d.Variable:
			c.problems.Addf(at, noObject)
		case d.External:
			c.problems.Addf(at, "has no meaning for externalRef: what somebody else keeps is never deleted")
		case !known:
			c.problems.Add(diag.Diagnostic{Path: at, Problem: "there is no resource of this id", Nearest: diag.Nearest(id, c.ids())})
		case id == d.ID:
			c.problems.Addf(at, "is the resource itself")
		case !kept && c.draftOf(id).Variable:
			c.problems.Addf(at, "%s is a variable: there is no object to be gone", id)
		case !kept:
			c.problems.Addf(at, "%s is somebody else's: it isn't deleted with the instance", id)
		case !slices.Contains(d.DeleteAfter, id):
			d.DeleteAfter = append(d.DeleteAfter, id)
		}
	}
	slices.Sort(d.DeleteAfter)
}

// checkDeletionOrder finds nodes that would wait for one another. What depends on
// a node goes before it, and so does what it is to be deleted after.
func (c *compilation) checkDeletionOrder() {
	if len(c.graph.Nodes) == 0 {
		return // there is no order, which has been told
	}
	order := dag.New(c.graph.Order()...)
	for _, n := range c.graph.Nodes {
		order.Connect(n.ID, n.Dependencies...)
		for _, first := range n.DeleteAfter {
			order.Connect(first, n.ID)
		}
	}
	_, err := order.Order()
	var cycle *dag.CycleError[string]
	if errors.As(err, &cycle) {
		c.problems.Addf("spec.resources", "can't be deleted in any order: %s, where each has to be gone before the next", strings.Join(cycle.Path, " → "))
	}
}

// under lists, sorted, the nodes with objects of their own that have to stay as
// long as one which depends on the given ones. Those that don't go with the
// instance don't hold up what they stand on themselves: that is listed as well.
func (g *Graph) under(ids []string) []string {
	out := map[string]bool{}
	var add func(ids []string)
	add = func(ids []string) {
		for _, id := range ids {
			n := g.node(id)
			if n.writes() {
				out[id] = true
			}
			if !n.writes() || n.OnDelete != "" {
				add(n.Dependencies)
			}
		}
	}
	add(ids)
	return slices.Sorted(maps.Keys(out))
}
