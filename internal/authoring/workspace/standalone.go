package workspace

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/object"
)

// compileStandalone compiles the Graphs, after the definitions of the kinds that they use.
func (w *Workspace) compileStandalone() {
	for _, d := range w.Documents(graph.GraphKind.GroupKind()) {
		raw, isObject := d.Object.Object["spec"].(map[string]any)
		if !isObject {
			continue // the schema says so
		}
		spec, problems := graph.ReadGraph(raw)
		uses := graph.UsedKindsOfGraph(spec, nil)
		kinds := w.lookUp(uses)
		g, found := graph.CompileGraph(spec, kinds, graph.WithSecretOutputs(w.options.SecretOutputs))
		problems.Add(found...)
		w.add(d, Error, "", problems.Sorted())
		w.checkNodes(d, raw["nodes"], "spec.nodes", kinds)
		if g != nil && len(problems) == 0 {
			w.add(d, Warning, "", g.SecretOutputs)
			w.add(d, Warning, "", g.Warnings)
			drawing := Diagram{d, g.Diagram()}
			drawing.Title = d.Object.GetName()
			w.standalone = append(w.standalone, drawing)
		}
	}
}

// checkNodes is checkTemplates for the nodes of a Graph, and of the graphs in it.
func (w *Workspace) checkNodes(d *Document, nodes any, at object.Path, kinds graph.Kinds) {
	all, _ := nodes.([]any)
	for i, n := range all {
		node, _ := n.(map[string]any)
		at := at.Index(i)
		w.checkTemplate(d, node, at, []string{"template", "ref"}, func(gvk schema.GroupVersionKind) (object.KindInfo, bool) {
			kind, known := kinds[gvk]
			return kind, known
		})
		if nested, is := node["graph"].(map[string]any); is {
			w.checkNodes(d, nested["nodes"], at.Field("graph", "nodes"), kinds)
		}
	}
}

// checkTemplate reports required fields that a node's template lacks, and kinds whose schema is unknown.
func (w *Workspace) checkTemplate(d *Document, node map[string]any, at object.Path, fields []string, lookUp func(schema.GroupVersionKind) (object.KindInfo, bool)) {
	for _, field := range fields {
		document, _ := node[field].(map[string]any)
		apiVersion, _ := document["apiVersion"].(string)
		name, _ := document["kind"].(string)
		gvk := schema.FromAPIVersionAndKind(apiVersion, name)
		if gvk.Kind == "" {
			continue
		}
		switch kind, known := lookUp(gvk); {
		case field == fields[0] && kind.Schema != nil && node["adopt"] != string(v1alpha1.AdoptIfUnowned):
			w.add(d, Error, at.Field(field), requiredFields(kind, document))
		case !known:
			w.warnOfUnknownKind(d, at.Field(field), gvk)
		}
	}
}
