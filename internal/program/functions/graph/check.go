package graph

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/object"
)

// Check lists the problems of an input, with paths in it: those that make the function fail for every composite of
// the kind, and notes on data of Secrets in outputs. lookUp returns what is known of kinds; expressions about unknown
// ones are not type-checked.
func (d *Dialect) Check(input map[string]any, composite schema.GroupVersionKind, lookUp func(schema.GroupVersionKind) (object.KindInfo, bool)) (problems, notes diag.List) {
	compiled, problems := d.Compile(input, composite, lookUp)
	if compiled != nil {
		notes = compiled.SecretOutputs
	}
	return problems, notes
}

// Compile returns the graph of an input for a composite kind, or its problems, as Check does.
func (d *Dialect) Compile(input map[string]any, composite schema.GroupVersionKind, lookUp func(schema.GroupVersionKind) (object.KindInfo, bool)) (*graph.Graph, diag.List) {
	spec, problems := d.decode(input)
	if len(problems) > 0 {
		return nil, problems
	}
	kinds := graph.Kinds{}
	for _, gvk := range graph.UsedKindsOfEmbedded(spec) {
		if kind, known := lookUp(gvk); known {
			kinds[gvk] = object.KindInfo{Schema: kind.Schema}
		}
	}
	instance, _ := lookUp(composite)
	compiled, problems := graph.CompileEmbedded(spec, kinds, graph.Embedded{Instance: instance.Schema, Ready: d.ready})
	d.paths(problems)
	if compiled != nil {
		d.paths(compiled.SecretOutputs)
	}
	return compiled, problems
}
