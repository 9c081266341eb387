package graph

import (
	"regexp"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// GraphKind is the kind of Graphs.
var GraphKind = v1alpha1.GroupVersion.WithKind(v1alpha1.GraphKind)

// standalone configures the graph of a Graph: it defines no kind, and the Graph is its only instance.
type standalone struct {
	// waitForReadiness says that nodes wait until the nodes that they read are ready. Otherwise they wait until these exist.
	waitForReadiness bool
}

// CompileGraph is Compile for the spec of a Graph.
func CompileGraph(spec *v1alpha1.GraphSpec, kinds Kinds, options ...Option) (*Graph, diag.List) {
	return compile(asDefinition(spec), kinds, Graph{standalone: &standalone{spec.WaitForReadiness}}, options)
}

// UsedKindsOfGraph is UsedKinds for the spec of a Graph.
func UsedKindsOfGraph(spec *v1alpha1.GraphSpec) []schema.GroupVersionKind {
	return uses(asDefinition(spec), Graph{standalone: &standalone{}})
}

// asDefinition returns a definition with the same nodes. Its kind is Graph.
func asDefinition(spec *v1alpha1.GraphSpec) *v1alpha1.DefinitionSpec {
	out := &v1alpha1.DefinitionSpec{
		Schema:    &v1alpha1.Schema{Group: GraphKind.Group, APIVersion: GraphKind.Version, Kind: GraphKind.Kind},
		Readiness: spec.Readiness, Deletion: spec.Deletion, AllowSecretOutputs: spec.AllowSecretOutputs, OwnerReferences: v1alpha1.OwnerReferencesNone,
	}
	for _, n := range spec.Nodes {
		if n == nil {
			out.Resources = append(out.Resources, nil)
			continue
		}
		r := &v1alpha1.Resource{ID: n.ID, ExternalRef: n.Ref, NodeOptions: n.NodeOptions}
		if n.Template != nil {
			r.Template = *n.Template
		}
		if n.Def != nil {
			r.Value = *n.Def
		}
		out.Resources = append(out.Resources, r)
	}
	return out
}

// wording is how a kind of definitions names nodes and their fields.
type wording struct {
	// nodes is the list of nodes, and reference and value are fields of a node.
	nodes            object.Path
	reference, value string
	// name is the pattern of ids and iterators, nameForm describes it, and reserved are names that they cannot have.
	name     *regexp.Regexp
	nameForm string
	reserved []string
}

var definitionWording = wording{
	nodes: "spec.resources", reference: "externalRef", value: "value",
	name:     regexp.MustCompile(`^[a-z][a-zA-Z0-9]*$`),
	nameForm: "in lowerCamelCase (a lower-case letter, then letters and digits)",
	reserved: reserved,
}

var graphWording = wording{
	nodes: "spec.nodes", reference: "ref", value: "def",
	name:     regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9]*$`),
	nameForm: "a letter, followed by letters and digits",
	reserved: append([]string{
		"apiVersion", "kind", "metadata", "spec", "status", "graph", "graphengine", "kro", "each", "item", "items", "object", "self", "this", "context",
	}, celWords...),
}

func (g *Graph) words() *wording {
	if g.standalone != nil {
		return &graphWording
	}
	return &definitionWording
}
