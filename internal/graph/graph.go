// Package graph turns a definition into an immutable graph: every name checked,
// every expression typed against the schemas of the kinds that it reads, every
// dependency known. Compilation is pure: the same definition and the same kinds
// give the same graph, or the same diagnostics.
//
// Pure: it decides from values alone.
package graph

import (
	"regexp"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
)

// Graph is a compiled definition. It is immutable and safe for concurrent use.
type Graph struct {
	// Kind is the kind of the instances.
	Kind       schema.GroupVersionKind
	Namespaced bool
	// Spec and Status are the schemas of an instance's spec and status; the
	// status holds the author's fields only.
	Spec   *apiextensionsv1.JSONSchemaProps
	Status *apiextensionsv1.JSONSchemaProps
	// Name is the schema of an instance's name; nil where any will do.
	Name *apiextensionsv1.JSONSchemaProps
	// Versions are further ones of the instances' kind, in the definition's order.
	Versions []Version
	// Nodes come in topological order, which is that of their layers and ids: that of the
	// definition's list has no meaning.
	Nodes []*Node
	// Missing lists, sorted, the kinds that no server knew when the graph was
	// compiled.
	// Their nodes are held back and untyped; everything else works.
	Missing []schema.GroupVersionKind
	// Defaults are what the definition says of its instances' deletion.
	Defaults inventory.Defaults
	// Unreferred says that objects don't refer to their instance as their owner.
	Unreferred bool

	env    *expr.Env
	status *expr.Template
	// conditions are the author's; nil if there are none.
	conditions *expr.Conditions
	readiness  v1alpha1.Readiness
	guest      *Embedded // nil for a definition's own
}

// Node is one resource of a graph.
type Node struct {
	ID string
	// Index is the node's place in the definition's list.
	Index int
	// Layer is the first step of the order of application in which all that
	// the node depends on is there.
	Layer int
	Kind  schema.GroupVersionKind
	// Known says whether a server knew the kind at compile time; Namespaced and
	// Nested have a meaning only then.
	Known      bool
	Namespaced bool
	// names is the rule for what the kind's objects are called.
	names object.NameRule
	// Nested says that the kind is served by a definition: its objects are
	// instances, and ready when their Ready condition says so.
	Nested bool
	// External nodes are read and never written.
	External bool
	// Variable says that the node is a value that others read: it has no object, and no
	// kind.
	Variable bool
	// Collection says that the node is a list of objects: those that it keeps, one for
	// each item, or those of somebody else's that its reference selects.
	Collection bool
	// Dependencies are the nodes that this one reads, sorted.
	Dependencies []string
	// DeleteAfter are nodes that have to be gone before this one is deleted, beside
	// those that depend on it; sorted.
	DeleteAfter []string
	// OnDelete says what becomes of the node's object when it isn't wanted any
	// more; empty for Delete.
	OnDelete v1alpha1.DeletionPolicy

	// under are the nodes whose objects have to stay as long as this one's.
	under       []string
	template    *expr.Template
	includeWhen []*expr.Program
	// items is how a collection of objects to keep comes about; nil for anything else.
	items     *items
	readyWhen []*expr.Program
	waitFor   []waitFor
	// adopt lets the node take over an object that nobody keeps, and refuse keeps it from
	// taking over fields that somebody has set.
	adopt, refuse bool
	// drift says what becomes of fields that somebody else changes.
	drift plan.Drift
	// recreate says what becomes of the object when the API server rejects its update.
	recreate plan.Recreation
	// unplaced says that the node's reference names no namespace.
	unplaced bool
	// conceals says that the object may hold what a Secret holds.
	conceals bool
	// derived says that it does because of what it is rendered from.
	derived bool
	// refs are what template, forEach, includeWhen and waitFor read. A root that is no
	// node and not the instance is an iterator.
	refs []expr.Ref
}

// waitFor is a field of another node that must be there first.
type waitFor struct {
	ref     expr.Ref
	value   *expr.Program
	pattern *regexp.Regexp
	rule    *expr.Program
	timeout time.Duration
	retries int
}

// InOrder lists the nodes in the dialect's topological order: of those that may come next,
// always the one that was declared first. Nothing but what is shown depends on it.
func (g *Graph) InOrder() []*Node {
	left := slices.SortedFunc(slices.Values(g.Nodes), func(a, b *Node) int { return a.Index - b.Index })
	placed := map[string]bool{}
	out := make([]*Node, 0, len(left))
	for len(left) > 0 {
		i := slices.IndexFunc(left, func(n *Node) bool {
			return !slices.ContainsFunc(n.Dependencies, func(id string) bool { return !placed[id] })
		})
		out, placed[left[i].ID] = append(out, left[i]), true
		left = slices.Delete(left, i, i+1)
	}
	return out
}

// Order lists the ids of the nodes in the dialect's topological order.
func (g *Graph) Order() []string {
	ids := make([]string, len(g.Nodes))
	for i, n := range g.InOrder() {
		ids[i] = n.ID
	}
	return ids
}

// Written lists the kinds whose objects the graph writes, in order of their
// first use.
func (g *Graph) Written() []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	for _, n := range g.Nodes {
		if n.writes() && !slices.Contains(out, n.Kind) {
			out = append(out, n.Kind)
		}
	}
	return out
}

// writes says whether the node keeps objects of its own.
func (n *Node) writes() bool { return !n.External && !n.Variable }

// Untyped says whether the kind was unknown when the graph was compiled, so that
// its nodes can't be rendered before the graph is compiled anew.
func (g *Graph) Untyped(gvk schema.GroupVersionKind) bool {
	return slices.Contains(g.Missing, gvk)
}

// Kinds is what is known of the kinds that a definition uses, as Uses lists them.
// One that isn't here no server knows: it may come later, unlike one that is Absent.
type Kinds map[schema.GroupVersionKind]object.KindInfo
