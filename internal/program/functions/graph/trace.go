package graph

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/composition/functions/call"
	"github.com/espalier-dev/espalier/internal/composition/trace"
	"github.com/espalier-dev/espalier/internal/graph"
)

// Writes returns the field of the request's graph that sets a field of a resource, or of the composite's status; none if the graph does not
// set it.
func (f *Function) Writes(r call.Request, to trace.Object, path []any) []trace.Write {
	p := f.parse(r.Input)
	if len(p.problems) > 0 {
		return nil
	}
	apiVersion, _ := r.Observed.Composite.Object["apiVersion"].(string)
	kind, _ := r.Observed.Composite.Object["kind"].(string)
	compiled := f.compile(p, schema.FromAPIVersionAndKind(apiVersion, kind), r.Required.Schemas)
	if len(compiled.problems) > 0 {
		return nil
	}
	var source graph.Source
	var set bool
	switch {
	case to.Kind == trace.Composed:
		source, set = compiled.graph.SourceOf(f.dialect.templateOf(to.Resource, p.spec), nil, path)
	case to.Kind == trace.Composite && len(path) > 0 && path[0] == "status":
		source, set = compiled.graph.StatusSourceOf(path[1:])
	}
	if !set {
		return nil
	}
	w := trace.Write{Place: f.dialect.path(source.Path), What: "literal"}
	var texts []string
	for _, x := range source.Expressions {
		texts = append(texts, "${"+strings.Join(strings.Fields(x.Program.Source()), " ")+"}")
		for _, ref := range x.Program.Refs() {
			read := trace.Read{Of: trace.Object{Kind: trace.Composed, Resource: ref.Root}}
			from := r.Observed.Resources[ref.Root].Object
			if ref.Root == compositeRoot {
				read.Of, from = trace.Object{Kind: trace.Composite}, r.Observed.Composite.Object
			}
			fields := ref.Fields()
			read.Field = read.Field.Steps(fields...)
			var has bool
			if read.Value, has = trace.At(from, fields); has {
				w.Reads = append(w.Reads, read)
			}
		}
	}
	if len(texts) > 0 {
		w.What = strings.Join(texts, " ")
	}
	return []trace.Write{w}
}

const compositeRoot = "schema"
