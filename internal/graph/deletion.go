package graph

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph/dag"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
)

// CheckInstanceOverrides lists the problems of what a definition allows its instances to override.
func CheckInstanceOverrides(spec *v1alpha1.DefinitionSpec) diag.List {
	return inventory.CheckOverrides(spec.InstanceOverrides, "spec.instanceOverrides")
}

func planDeletion(c *compilation) {
	c.problems.Add(CheckInstanceOverrides(c.spec)...)
	c.graph.DeletionDefaults.OnDelete = map[string]v1alpha1.DeletionPolicy{}
	if d := c.spec.Deletion; d != nil {
		c.graph.DeletionDefaults.Timeout = c.positiveDuration(d.Timeout, "spec.deletion.timeout")
		c.graph.DeletionDefaults.ForceAfter = c.positiveDuration(d.ForceAfter, "spec.deletion.forceAfter")
	}
	written := map[string]bool{}
	for _, d := range c.drafts {
		written[d.ID] = d.hasOwnObjects()
	}
	for _, d := range c.drafts {
		c.checkDeletionPolicy(d)
		c.checkDeleteAfter(d, written)
	}
	for _, n := range c.graph.Nodes {
		n.deletionDependencies = c.graph.deletionDependencies(n.Dependencies)
	}
	c.checkDeletionOrder()
}

func (c *compilation) positiveDuration(d *metav1.Duration, at object.Path) time.Duration {
	if d == nil {
		return 0
	}
	if d.Duration <= 0 {
		c.problems.Addf(at, "must be positive, such as 10m")
	}
	return d.Duration
}

func (c *compilation) checkDeletionPolicy(d *draft) {
	policy := d.source.DeletionPolicy.Plain()
	switch {
	case policy != "" && d.Variable:
		c.problems.Addf(d.at.Field("deletionPolicy"), noObjectProblem)
	case policy == "", policy == v1alpha1.DeletionDelete:
	case !policy.Valid():
		c.problems.Addf(d.at.Field("deletionPolicy"), "is %q; it can be Delete, Orphan or Retain", policy)
	case d.External:
		c.problems.Addf(d.at.Field("deletionPolicy"), "does not apply to %s: external objects are never deleted", c.words.reference)
	default:
		d.OnDelete = policy
		c.graph.DeletionDefaults.OnDelete[d.ID] = policy
	}
}

// readPolicyAnnotation moves the annotation of a template to the node's deletionPolicy, which has the same meaning.
func (c *compilation) readPolicyAnnotation(d *draft, metadata map[string]any, at object.Path) {
	annotations, _ := metadata["annotations"].(map[string]any)
	value, set := annotations[v1alpha1.PolicyAnnotation]
	if !set || c.graph.embedded != nil {
		return
	}
	delete(annotations, v1alpha1.PolicyAnnotation)
	at = at.Field(v1alpha1.PolicyAnnotation)
	text, _ := value.(string)
	policy := v1alpha1.DeletionPolicy(text)
	switch other := d.source.DeletionPolicy; {
	case hasExpression(value):
		c.problems.Addf(at, "must be plain text: a deletion does not evaluate expressions")
	case policy != v1alpha1.DeletionDelete && policy != v1alpha1.DeletionOrphaned:
		known := []string{string(v1alpha1.DeletionDelete), string(v1alpha1.DeletionOrphaned)}
		c.problems.Add(diag.Diagnostic{Path: at, Problem: "is " + formatValue(value) + "; it can be Delete or Orphaned", Nearest: diag.Nearest(text, known)})
	case other != "" && other.Plain() != policy.Plain():
		c.problems.Addf(at, "is %s, and the deletionPolicy of the resource is %s; remove one of them", policy, other)
	default:
		source := *d.source
		source.DeletionPolicy = policy
		d.source = &source
	}
}

func (c *compilation) checkDeleteAfter(d *draft, written map[string]bool) {
	for i, name := range d.source.DeleteAfter {
		at, id := d.at.Field("deleteAfter").Index(i), d.resolve(name)
		kept, known := written[id]
		switch {
		case d.Variable:
			c.problems.Addf(at, noObjectProblem)
		case d.External:
			c.problems.Addf(at, "does not apply to %s: external objects are never deleted", c.words.reference)
		case !known:
			c.problems.Add(diag.Diagnostic{Path: at, Problem: "no resource has this id", Nearest: diag.Nearest(id, c.nodeIDs())})
		case id == d.ID:
			c.problems.Addf(at, "is the resource itself, which cannot be deleted after itself")
		case !kept && c.draftByID(id).Variable:
			c.problems.Addf(at, "%s is a variable and has no object", id)
		case !kept:
			c.problems.Addf(at, "%s is external and not deleted with the instance", id)
		case !slices.Contains(d.DeleteAfter, id):
			d.DeleteAfter = append(d.DeleteAfter, id)
		}
	}
	slices.Sort(d.DeleteAfter)
}

// checkDeletionOrder finds nodes that would wait for each other's deletion. A node is
// deleted after the nodes that depend on it and after the nodes in its DeleteAfter.
func (c *compilation) checkDeletionOrder() {
	if len(c.graph.Nodes) == 0 {
		return // the dependencies have a cycle, which is reported already
	}
	order := dag.New(c.graph.TopologicalOrder()...)
	for _, n := range c.graph.Nodes {
		order.Connect(n.ID, n.Dependencies...)
		for _, first := range n.DeleteAfter {
			order.Connect(first, n.ID)
		}
	}
	_, err := order.Order()
	var cycle *dag.CycleError[string]
	if errors.As(err, &cycle) {
		c.problems.Addf(c.words.nodes, "have no deletion order: %s, where each must be gone before the next", strings.Join(cycle.Path, " → "))
	}
}

// deletionDependencies lists, sorted, the nodes with children that must outlive a node
// which depends on the given nodes. A node that is not deleted with the instance does not
// delay the deletion of its own dependencies, so these are listed as well.
func (g *Graph) deletionDependencies(ids []string) []string {
	out, visited := map[string]bool{}, map[string]bool{}
	var add func(ids []string)
	add = func(ids []string) {
		for _, id := range ids {
			if visited[id] {
				continue
			}
			visited[id] = true
			n := g.node(id)
			if n.hasOwnObjects() {
				out[id] = true
			}
			if !n.hasOwnObjects() || n.OnDelete != "" {
				add(n.Dependencies)
			}
		}
	}
	add(ids)
	return slices.Sorted(maps.Keys(out))
}
