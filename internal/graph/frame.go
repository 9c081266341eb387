package graph

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/object"
)

// frame is a Graph, or a graph that is nested in it, with the names of its nodes. A node is declared by its path, such as
// back/database; in the frame it has its name, and hides nodes of outer frames that have the same.
type frame struct {
	outer *frame
	// path is that of the node which is the graph; empty for the Graph itself.
	path string
	// nodes are the names of the nodes, patches those without a value, and graphs those of nodes that are graphs.
	nodes, patches []string
	graphs         map[string]*frame
}

func (f *frame) pathOf(name string) string {
	if f.path == "" {
		return name
	}
	return f.path + "/" + name
}

// names are what the expressions of the frame's nodes may read: its own nodes, and those of outer frames. A graph does
// not read itself.
func (f *frame) names() expr.Namespace {
	out := expr.Namespace{Names: map[string]expr.Name{}, Graphs: map[string]expr.Namespace{}}
	var within *frame
	for at := f; at != nil; within, at = at, at.outer {
		for _, name := range at.nodes {
			if !out.Has(name) {
				out.Names[name] = expr.Name{Declared: at.pathOf(name), Frame: at.path}
			}
		}
		for name, graph := range at.graphs {
			if !out.Has(name) && graph != within {
				out.Graphs[name] = graph.members(at.path)
			}
		}
	}
	return out
}

// members are the nodes of a graph as another frame reads them.
func (f *frame) members(reader string) expr.Namespace {
	out := expr.Namespace{Names: map[string]expr.Name{}, Graphs: map[string]expr.Namespace{}}
	for _, name := range f.nodes {
		if !slices.Contains(f.patches, name) {
			out.Names[name] = expr.Name{Declared: f.pathOf(name), Frame: reader}
		}
	}
	for name, graph := range f.graphs {
		out.Graphs[name] = graph.members(reader)
	}
	return out
}

// resolve returns the path of the node of a name, as expressions of the frame use it.
func (f *frame) resolve(name string) string {
	for at := f; at != nil; at = at.outer {
		if slices.Contains(at.nodes, name) {
			return at.pathOf(name)
		}
	}
	return name
}

// maxGraphDepth bounds how deeply graphs are nested in a Graph.
const maxGraphDepth = 16

// flattening collects the nodes of a Graph and of the graphs in it.
type flattening struct {
	definition *v1alpha1.DefinitionSpec
	host       *standalone
	problems   diag.List
	depth      int
}

func (f *flattening) add(nodes []*v1alpha1.GraphNode, at object.Path, in *frame) {
	for i, n := range nodes {
		at := at.Index(i)
		if n != nil && n.Graph != nil && graphWording.name.MatchString(n.ID) {
			f.addGraph(n, at, in)
			continue
		}
		node := place{at: at, frame: in}
		var resource *v1alpha1.Resource
		if n != nil {
			node.name, node.patch = n.ID, n.Patch
			resource = asResource(n, in.pathOf(n.ID))
			in.nodes = append(in.nodes, n.ID)
			if n.Patch != nil {
				in.patches = append(in.patches, n.ID)
			}
			if value := computedKind(n); value != nil {
				node.kindFrom = kindNode(resource.ID)
				f.addKind(n, value, node)
			}
		}
		f.definition.Resources = append(f.definition.Resources, resource)
		f.host.places = append(f.host.places, node)
	}
}

// addKind adds the node with the kind of another.
func (f *flattening) addKind(n *v1alpha1.GraphNode, value *runtime.RawExtension, of place) {
	field := "template"
	switch {
	case n.Ref != nil:
		field = graphWording.reference
	case n.Patch != nil:
		field = "patch"
	}
	f.definition.Resources = append(f.definition.Resources, &v1alpha1.Resource{ID: of.kindFrom, Value: *value})
	f.host.places = append(f.host.places, place{name: of.name, at: of.at, frame: of.frame, kindOf: of.at.Field(field)})
}

func (f *flattening) addGraph(n *v1alpha1.GraphNode, at object.Path, in *frame) {
	switch first, twice := in.graphs[n.ID]; {
	case n.Template != nil || n.Ref != nil || n.Def != nil || n.Patch != nil:
		f.problems.Addf(at, "exactly one of %s must be provided", graphWording.contents)
		return
	case twice || slices.Contains(in.nodes, n.ID):
		f.problems.Addf(at.Field("id"), "found duplicate resource IDs: another node has the ID %q", n.ID)
		return
	case first == nil && slices.Contains(graphWording.reserved, n.ID):
		f.problems.Addf(at.Field("id"), "naming convention violation: id %q is a reserved keyword", n.ID)
		return
	case !reflect.ValueOf(n.NodeOptions).IsZero():
		f.problems.Addf(at, "a graph has no options; its nodes have them")
		return
	case f.depth == maxGraphDepth:
		f.problems.Addf(at, "graphs are nested more than %d levels deep", maxGraphDepth)
		return
	}
	var fields map[string]any
	if err := utiljson.Unmarshal(n.Graph.Raw, &fields); err != nil {
		f.problems.Addf(at.Field("graph"), "is not an object")
		return
	}
	if isDeeper(fields, MaxNesting) {
		f.problems.Addf(at.Field("graph"), "has objects and lists nested more than %d levels deep (MaxNesting)", MaxNesting)
		return
	}
	nodes, problems := readNestedNodes(fields, at.Field("graph"))
	f.problems.Add(problems...)
	inner := &frame{outer: in, path: in.pathOf(n.ID), graphs: map[string]*frame{}}
	if in.graphs == nil {
		in.graphs = map[string]*frame{}
	}
	in.graphs[n.ID] = inner
	f.depth++
	f.add(nodes, at.Field("graph", "nodes"), inner)
	f.depth--
}

// readNestedNodes decodes the nodes of a nested graph, which the API server does not check.
func readNestedNodes(fields map[string]any, at object.Path) ([]*v1alpha1.GraphNode, diag.List) {
	type graph struct {
		Nodes []*v1alpha1.GraphNode `json:"nodes"`
	}
	r := reader{strict: true}
	legible, _ := r.readValue(fields, reflect.TypeFor[graph](), at)
	out := graph{}
	readable, _ := legible.(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(readable, &out); err != nil {
		r.problems.Addf(at, "cannot be decoded: %v", err)
	} else if len(out.Nodes) == 0 && len(r.problems) == 0 {
		r.problems.Addf(at.Field("nodes"), "is required, with at least one node")
	}
	return out.Nodes, r.problems
}
