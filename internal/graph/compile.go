package graph

import (
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
	// MaxIDLength bounds a node's id. Annotations and statuses contain the ids of many nodes.
	MaxIDLength = 253
)

// compilerPass is one step of the compilation. It adds its results and every problem that
// it finds to the compilation.
type compilerPass struct {
	name string
	run  func(*compilation)
}

// compilerPasses run in order. Each relies on the passes before it and skips the nodes
// that they marked as broken.
var compilerPasses = []compilerPass{
	{"names of the kind and of the nodes", checkNames},
	{"the instance's spec", parseSpec},
	{"further versions of the kind", compileVersions},
	{"templates and references as documents", decodeNodes},
	{"the kinds of the nodes", resolveKinds},
	{"places: scope, namespace, reserved labels", checkPlaces},
	{"labels and annotations that children get from their instance", checkPropagation},
	{"the names that expressions may read", declareNames},
	{"the types of variables", declareVariables},
	{"expressions of the nodes", compileNodes},
	{"dependencies", connectDependencies},
	{"instances of the definition's own kind", checkRecursion},
	{"objects of several nodes", checkSameObjects},
	{"adoption, conflict and drift policies", checkPolicies},
	{"the order and the limits of deletion", planDeletion},
	{"the instance's status", compileStatus},
	{"the list of objects in the status", compileInventory},
	{"the scale subresource", compileScale},
	{"data of Secrets in outputs", checkSecretOutputs},
}

type compilation struct {
	spec              *v1alpha1.DefinitionSpec
	kinds             Kinds
	secretOutputsRule SecretOutputs
	words             *wording
	problems          diag.List

	graph        *Graph
	instanceSpec *apiextensionsv1.JSONSchemaProps
	// scaled is, for each version, the field of the spec with the marker scale, such as .spec.replicas.
	scaled map[string]string
	// drafts has one for each entry of spec.resources, in its order.
	drafts []*draft
	env    *expr.Env
}

// A draft is a node in compilation.
type draft struct {
	*Node
	source *v1alpha1.Resource
	at     object.Path
	// name is the id that the author has given. In a nested graph it is the end of the node's ID, and frame says what its
	// expressions read.
	name  string
	frame *frame
	patch *runtime.RawExtension // of a Graph
	// kindOf is the document whose apiVersion and kind are the value of this node; empty for others.
	kindOf object.Path
	words  *wording
	// document is the template, or the external reference as a document.
	document map[string]any
	value    any
	kind     object.KindInfo
	// typed is the schema of the kind's objects, shared by all nodes of the kind; nil if
	// the kind has no schema.
	typed *spec.Schema
	// env includes the iterators of the node.
	env           *expr.Env
	dimensionEnvs []*expr.Env
	// broken says that the draft has a problem that makes later passes meaningless for it.
	broken bool
}

func (c *compilation) breakf(d *draft, at object.Path, format string, args ...any) {
	d.broken = true
	c.problems.Addf(at, format, args...)
}

// Option is a rule of a compilation that is not part of the definition.
type Option func(*compilation)

// WithSecretOutputs sets what happens to a definition that puts data of Secrets into outputs; by
// default it is refused.
func WithSecretOutputs(rule SecretOutputs) Option {
	return func(c *compilation) { c.secretOutputsRule = rule }
}

// Compile turns a definition's spec into a graph. If the spec is invalid, it returns all
// problems and a nil graph.
func Compile(spec *v1alpha1.DefinitionSpec, kinds Kinds, options ...Option) (*Graph, diag.List) {
	return compile(spec, kinds, Graph{}, options)
}

// host says what the graph runs in.
func compile(spec *v1alpha1.DefinitionSpec, kinds Kinds, host Graph, options []Option) (*Graph, diag.List) {
	c := newCompilation(spec, host)
	c.kinds = kinds
	for _, set := range options {
		set(c)
	}
	if spec.Schema == nil {
		c.problems.Addf("spec.schema", "is required")
		return nil, c.problems
	}
	for _, p := range compilerPasses {
		p.run(c)
	}
	if len(c.problems) > 0 {
		return nil, c.problems.Sorted()
	}
	return c.graph, nil
}

func newCompilation(spec *v1alpha1.DefinitionSpec, host Graph) *compilation {
	host.readiness = spec.Readiness
	return &compilation{spec: spec, words: host.words(), graph: &host, scaled: map[string]string{}}
}

// UsedKinds lists the kinds that a definition reads or writes, in order of their first
// use: Compile takes a description of each. It skips the kinds of invalid nodes.
func UsedKinds(spec *v1alpha1.DefinitionSpec) []schema.GroupVersionKind {
	if spec.Schema == nil {
		return nil
	}
	return uses(spec, Graph{})
}

func uses(spec *v1alpha1.DefinitionSpec, host Graph) []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	for _, d := range drafts(spec, host) {
		if !d.broken && !d.Variable && d.Kind != notComputedYet && !slices.Contains(out, d.Kind) {
			out = append(out, d.Kind)
		}
	}
	return out
}

// drafts are a definition's nodes, as far as they are known before their kinds are.
func drafts(spec *v1alpha1.DefinitionSpec, host Graph) []*draft {
	c := newCompilation(spec, host)
	checkNames(c)
	decodeNodes(c)
	return c.drafts
}

func resolveKinds(c *compilation) {
	missing, typed := map[schema.GroupVersionKind]bool{}, map[schema.GroupVersionKind]*spec.Schema{}
	for _, d := range c.drafts {
		if d.broken || d.Variable {
			continue
		}
		d.kind, d.KindKnown = c.kinds[d.Kind]
		if d.kind.NeverServed {
			d.KindKnown = false
			c.reportAbsentKind(d)
		}
		d.Namespaced, d.Nested, d.nameRule = d.kind.Namespaced, d.kind.ServedByDefinition, d.kind.NameRule
		if d.kindFrom != "" {
			d.kind.Schema = nil
		}
		if typed[d.Kind] == nil && d.kind.Schema != nil {
			typed[d.Kind] = specschema.WithObjectMeta(d.kind.Schema)
		}
		if d.kindFrom == "" {
			d.typed = typed[d.Kind]
		}
		if !d.KindKnown && !missing[d.Kind] && d.Kind != notComputedYet {
			missing[d.Kind] = true
			c.graph.Missing = append(c.graph.Missing, d.Kind)
		}
	}
	slices.SortFunc(c.graph.Missing, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
}

// reportAbsentKind reports a kind that the API server will not serve. Everything else of
// the node is checked as if the kind were only missing.
func (c *compilation) reportAbsentKind(d *draft) {
	c.problems.Add(diag.NeverServed(d.documentPath(), d.Kind, d.kind))
}
