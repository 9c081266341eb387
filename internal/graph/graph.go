// Package graph turns a definition into an immutable graph: every name checked,
// every expression typed against the schemas of the kinds that it reads, every
// dependency known. The same definition and the same kinds give the same graph,
// or the same diagnostics.
// See docs/design/0004-compiling-definitions.md.
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
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
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
	// StatusFields are the engine's fields of the status that the author does not declare.
	StatusFields report.FieldSet
	// Name is the schema of metadata.name of the instances; nil if names are not restricted.
	Name *apiextensionsv1.JSONSchemaProps
	// Versions are the versions of the instances' kind besides Kind.Version, in the
	// definition's order.
	Versions []Version
	// Scale has the scale subresource of each version that has one, by the version's name.
	Scale map[string]apiextensionsv1.CustomResourceSubresourceScale
	// Nodes are in topological order: by layer, then by id. The order of the definition's
	// list does not matter.
	Nodes []*Node
	// Missing lists, sorted, the kinds that no server served when the graph was compiled.
	// Their nodes are untyped and wait for the kind; all other nodes work.
	Missing []schema.GroupVersionKind
	// SecretOutputs lists the expressions that put data of Secrets into outputs though the
	// definition does not allow it, if Options accept that.
	SecretOutputs diag.List
	// Warnings lists what the definition says without an effect.
	Warnings diag.List
	// DeletionDefaults are the definition's settings for the deletion of its instances.
	DeletionDefaults inventory.Defaults
	// NoOwnerReferences says that children have no owner reference to their instance.
	NoOwnerReferences bool
	// Listed is how many objects the status of an instance lists at most; none by default.
	Listed int

	// propagate lists the labels and annotations that children get from their instance.
	propagate v1alpha1.Propagation

	scope  *expr.Scope
	status *expr.Template
	// conditions is nil if the author has none.
	conditions *expr.Conditions
	readiness  v1alpha1.Readiness
	embedded   *Embedded   // nil for the graph of a definition
	standalone *standalone // nil, except for a Graph
}

// Node is one resource of a graph.
type Node struct {
	ID string
	// Index is the node's place in the definition's list. In a Graph it counts the nodes of nested graphs, too.
	Index int
	// Layer is the first step of the order of application at which all dependencies of
	// the node exist.
	Layer int
	Kind  schema.GroupVersionKind
	// KindKnown reports whether a server served the kind at compile time. Namespaced and Nested are meaningful only
	// if it is true.
	KindKnown  bool
	Namespaced bool
	// Nested says that the kind is served by a definition: its objects are
	// instances, and ready when their Ready condition says so.
	Nested bool
	// External nodes are read. Only patches write them.
	External bool
	// Variable says that the node is a value that other nodes read: it has no object and
	// no kind.
	Variable bool
	// Patch says that the node contributes fields to an external object. Other nodes cannot read it.
	Patch bool
	// Collection says that the node is a list of objects: one child for each item of
	// forEach, or the external objects that its reference selects.
	Collection bool
	// Dependencies are the nodes that this one reads, sorted.
	Dependencies []string
	// DeleteAfter are nodes besides those that depend on this one. Their objects must be gone
	// before this node's object is deleted; sorted.
	DeleteAfter []string
	// OnDelete says what happens to the node's object when it is no longer desired;
	// empty for Delete.
	OnDelete v1alpha1.DeletionPolicy

	at       object.Path // the node's field in the definition
	kindFrom string      // the node with its kind, if that is computed
	nameRule object.NameRule
	// subresource is what a patch is applied to; empty for the object itself.
	subresource string
	// deletionDependencies are the nodes with objects that must outlive this node's object.
	deletionDependencies []string
	template             *expr.Template
	includeWhen          []*expr.Program
	// forEach is nil except for a collection of children.
	forEach   *forEach
	readyWhen []*expr.Program
	// propagateWhen are the conditions for changes of the node's objects, and paces how those of a collection follow each
	// other.
	propagateWhen []*expr.Program
	paces         []plan.Pace
	waitFor       []waitFor
	// refs are the paths that template, forEach, includeWhen, propagateWhen and waitFor read. A root that
	// is neither a node nor the instance is an iterator.
	refs []expr.Ref
	// adoptUnowned lets the node take over an object without an owner. refuseConflicts
	// keeps it from taking over fields that another manager has set.
	adoptUnowned, refuseConflicts bool
	// drift says what happens to fields that another manager changes.
	drift plan.Drift
	// recreate reports whether the object is recreated when the API server rejects its update.
	recreate plan.Recreation
	// anyNamespace says that the object may be in another namespace than the instance.
	anyNamespace   bool
	namespaceUnset bool
	// mayHoldSecret says that the object may contain the data of a Secret.
	mayHoldSecret bool
	// secretFields says that names of the object's fields may come from a Secret.
	secretFields bool
	// readsSecret says that it may because its template reads a Secret.
	readsSecret bool
}

// waitFor is a field of another node that must be set before this node is applied.
type waitFor struct {
	ref     expr.Ref
	value   *expr.Program
	pattern *regexp.Regexp
	rule    *expr.Program
	timeout time.Duration
	retries int
}

// NodesInOrder lists the nodes in the dialect's topological order: of the nodes that may
// come next, always the one that was declared first. It serves only for display.
func (g *Graph) NodesInOrder() []*Node {
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

// TopologicalOrder lists the ids of the nodes in the dialect's topological order.
func (g *Graph) TopologicalOrder() []string {
	ids := make([]string, len(g.Nodes))
	for i, n := range g.NodesInOrder() {
		ids[i] = n.ID
	}
	return ids
}

// ChildKinds lists the kinds of the children, in order of their first use.
func (g *Graph) ChildKinds() []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	for _, n := range g.Nodes {
		if n.hasOwnObjects() && n.Kind != notComputedYet && !slices.Contains(out, n.Kind) {
			out = append(out, n.Kind)
		}
	}
	return out
}

// conditionalNodes are the ids of the nodes that some instances do not have: those with includeWhen
// for the whole node, and those that depend on such a node.
func (g *Graph) conditionalNodes() map[string]bool {
	out := map[string]bool{}
	for _, n := range g.Nodes { // in topological order
		if len(n.includeWhen) > 0 || slices.ContainsFunc(n.Dependencies, func(id string) bool { return out[id] }) {
			out[n.ID] = true
		}
	}
	return out
}

func (n *Node) hasOwnObjects() bool { return !n.External && !n.Variable }

// isSelection reports whether the node is all objects that its reference selects.
func (n *Node) isSelection() bool { return n.Collection && n.External && !n.Patch }

// SchemaUnknown reports whether the kind was missing when the graph was compiled, so its nodes cannot be rendered
// before the graph is compiled again.
func (g *Graph) SchemaUnknown(gvk schema.GroupVersionKind) bool {
	return slices.Contains(g.Missing, gvk)
}

// Kinds describes the kinds that a definition uses, as UsedKinds lists them. No server
// serves a kind that is not in the map: it may be installed later, unlike a kind that is
// Absent.
type Kinds map[schema.GroupVersionKind]object.KindInfo
