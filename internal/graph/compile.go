package graph

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph/expr"
	specschema "github.com/espalier-dev/espalier/internal/graph/schema"
	"github.com/espalier-dev/espalier/internal/object"
)

// Limits on a definition's size, each named in the diagnostic that enforces it.
const (
	// MaxResources bounds the nodes of one definition.
	MaxResources = 500
	// MaxIDLength bounds a node's id, which is the value of a label.
	MaxIDLength = 63
)

// pass is one step of the compilation. It adds what it learns to the
// compilation, and every problem that it finds.
type pass struct {
	name string
	run  func(*compilation)
}

// passes are the compiler, in order. Each relies on those before it and leaves
// alone the nodes that they marked as broken.
var passes = []pass{
	{"names of the kind and of the nodes", checkNames},
	{"the instance's spec", parseSpec},
	{"further versions of the kind", compileVersions},
	{"templates and references as documents", decodeNodes},
	{"the kinds of the nodes", resolveKinds},
	{"places: scope, namespace, reserved labels", checkPlaces},
	{"the names that expressions may read", declare},
	{"the types of variables", declareVariables},
	{"expressions of the nodes", compileNodes},
	{"dependencies", connect},
	{"what is said of objects that others change", checkPolicies},
	{"the order and the limits of deletion", planDeletion},
	{"the instance's status", compileStatus},
}

// compilation is the state between passes.
type compilation struct {
	spec     *v1alpha1.DefinitionSpec
	kinds    Kinds
	problems diag.List

	graph *Graph
	// drafts has one for each entry of spec.resources, in its order.
	drafts []*draft
	env    *expr.Env
}

// draft is a node on its way.
type draft struct {
	*Node
	source *v1alpha1.Resource
	at     object.Path
	// document is the template, or the reference as a document.
	document map[string]any
	// value is what a variable computes, as it is written.
	value any
	kind  object.KindInfo
	// typed is the schema of the kind's objects, one for all nodes of the kind; nil if
	// there is none.
	typed *spec.Schema
	// env is what the node's expressions may name: with its iterators, if it has any.
	env *expr.Env
	// broken drafts had a problem that makes later passes meaningless for them.
	broken bool
}

func (c *compilation) breakf(d *draft, at object.Path, format string, args ...any) {
	d.broken = true
	c.problems.Addf(at, format, args...)
}

// Compile turns a definition's spec into a graph. When it is wrong, all its
// problems are returned, and the graph is nil.
func Compile(spec *v1alpha1.DefinitionSpec, kinds Kinds) (*Graph, diag.List) {
	return compile(spec, kinds, nil)
}

func compile(spec *v1alpha1.DefinitionSpec, kinds Kinds, guest *Embedded) (*Graph, diag.List) {
	c := &compilation{spec: spec, kinds: kinds, graph: &Graph{readiness: spec.Readiness, guest: guest}}
	if spec.Schema == nil {
		c.problems.Addf("spec.schema", "is required")
		return nil, c.problems
	}
	for _, p := range passes {
		p.run(c)
	}
	if len(c.problems) > 0 {
		return nil, c.problems.Sorted()
	}
	return c.graph, nil
}

// Uses lists the kinds that a definition reads or writes, in order of their first
// use: what Compile is to be told of. Of nodes that are wrong none is listed.
func Uses(spec *v1alpha1.DefinitionSpec) []schema.GroupVersionKind {
	if spec.Schema == nil {
		return nil
	}
	return uses(spec, nil)
}

func uses(spec *v1alpha1.DefinitionSpec, guest *Embedded) []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	for _, d := range drafts(spec, guest) {
		if !d.broken && !d.Variable && !slices.Contains(out, d.Kind) {
			out = append(out, d.Kind)
		}
	}
	return out
}

// drafts are a definition's nodes, as far as they can be told without knowing kinds.
func drafts(spec *v1alpha1.DefinitionSpec, guest *Embedded) []*draft {
	c := &compilation{spec: spec, graph: &Graph{guest: guest}}
	checkNames(c)
	decodeNodes(c)
	return c.drafts
}

// refuseKind says of a kind that it won't come. Everything else of its node is checked as
// if it might.
func (c *compilation) refuseKind(d *draft) {
	c.problems.Add(diag.Diagnostic{
		Path:    d.documentPath().Field("kind"),
		Problem: fmt.Sprintf("the API server has no kind %q in %s", d.Kind.Kind, d.Kind.GroupVersion()),
		Nearest: diag.Nearest(d.Kind.Kind, d.kind.Siblings),
	})
}

// resolveKinds looks up what is known of each node's kind.
func resolveKinds(c *compilation) {
	missing, typed := map[schema.GroupVersionKind]bool{}, map[schema.GroupVersionKind]*spec.Schema{}
	for _, d := range c.drafts {
		if d.broken || d.Variable {
			continue
		}
		d.kind, d.Known = c.kinds[d.Kind]
		if d.kind.Absent {
			d.Known = false
			c.refuseKind(d)
		}
		d.Namespaced, d.Nested, d.names = d.kind.Namespaced, d.kind.Nested, d.kind.Names
		if typed[d.Kind] == nil && d.kind.Schema != nil {
			typed[d.Kind] = specschema.WithObjectMeta(d.kind.Schema)
		}
		d.typed = typed[d.Kind]
		if !d.Known && !missing[d.Kind] {
			missing[d.Kind] = true
			c.graph.Missing = append(c.graph.Missing, d.Kind)
		}
	}
	slices.SortFunc(c.graph.Missing, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
}
