package graph

import (
	"regexp"

	"k8s.io/apimachinery/pkg/runtime"
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
	// places are those of the resources of its definition, in their order.
	places []place
	// computed are kinds of nodes, by their ids, while the Graph is compiled.
	computed map[string]schema.GroupVersionKind
}

// place is where a node of a Graph is.
type place struct {
	name  string
	at    object.Path
	frame *frame
	// patch is the node's patch; nil for another node.
	patch *runtime.RawExtension
	// kindFrom is the id of the node with the kind, if that is computed, and kindOf the document that has the kind which this
	// node is.
	kindFrom string
	kindOf   object.Path
}

// CompileGraph is Compile for the spec of a Graph.
func CompileGraph(spec *v1alpha1.GraphSpec, kinds Kinds, options ...Option) (*Graph, diag.List) {
	definition, host, problems := asDefinition(spec)
	if spec.RevisionHistoryLimit != nil && host.hasSecretLiterals(definition) {
		problems.Addf("spec.revisionHistoryLimit", "the nodes contain data of a Secret, and users who may not read Secrets may read the ControllerRevisions with them: remove the field, or read the data by a ref")
	}
	compiled, found := compile(definition, kinds, Graph{standalone: host, Listed: MaxListedOfGraph}, options)
	if problems.Add(found...); len(problems) > 0 {
		return nil, problems.Sorted()
	}
	return compiled, nil
}

// UsedKindsOfGraph is UsedKinds for the spec of a Graph, of which some kinds are computed.
func UsedKindsOfGraph(spec *v1alpha1.GraphSpec, computed map[string]schema.GroupVersionKind) []schema.GroupVersionKind {
	definition, host, _ := asDefinition(spec)
	host.computed = computed
	return uses(definition, Graph{standalone: host})
}

// asDefinition returns a definition with the same nodes, including those of nested graphs. Its kind is Graph.
func asDefinition(spec *v1alpha1.GraphSpec) (*v1alpha1.DefinitionSpec, *standalone, diag.List) {
	out := &v1alpha1.DefinitionSpec{
		Schema:    &v1alpha1.Schema{Group: GraphKind.Group, APIVersion: GraphKind.Version, Kind: GraphKind.Kind},
		Readiness: spec.Readiness, Deletion: spec.Deletion, AllowSecretOutputs: spec.AllowSecretOutputs, OwnerReferences: v1alpha1.OwnerReferencesNone,
	}
	host := &standalone{waitForReadiness: spec.WaitForReadiness}
	f := flattening{definition: out, host: host}
	f.add(spec.Nodes, graphWording.nodes, &frame{})
	return out, host, f.problems
}

// hasSecretLiterals is HasSecretLiterals for the nodes of a Graph, which may be patches.
func (s *standalone) hasSecretLiterals(definition *v1alpha1.DefinitionSpec) bool {
	all := &v1alpha1.DefinitionSpec{}
	for i, r := range definition.Resources {
		if r != nil && s.places[i].patch != nil {
			r = &v1alpha1.Resource{ID: r.ID, Template: *s.places[i].patch}
		}
		all.Resources = append(all.Resources, r)
	}
	return HasSecretLiterals(all)
}

func asResource(n *v1alpha1.GraphNode, id string) *v1alpha1.Resource {
	r := &v1alpha1.Resource{ID: id, ExternalRef: n.Ref, NodeOptions: n.NodeOptions}
	if n.Template != nil {
		r.Template = *n.Template
	}
	if n.Def != nil {
		r.Value = *n.Def
	}
	return r
}

// wording is how a kind of definitions names nodes and their fields.
type wording struct {
	// nodes is the list of nodes, and reference and value are fields of a node.
	nodes            object.Path
	reference, value string
	// contents are the fields of which a node has exactly one.
	contents string
	// name is the pattern of ids and iterators, nameForm describes it, and reserved are names that they cannot have.
	name     *regexp.Regexp
	nameForm string
	reserved []string
}

var definitionWording = wording{
	nodes: "spec.resources", reference: "externalRef", value: "value", contents: "template, externalRef or value",
	name:     regexp.MustCompile(`^[a-z][a-zA-Z0-9]*$`),
	nameForm: "in lowerCamelCase (a lower-case letter, then letters and digits)",
	reserved: reserved,
}

var graphWording = wording{
	nodes: "spec.nodes", reference: "ref", value: "def", contents: "template, ref, def, patch or graph",
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
