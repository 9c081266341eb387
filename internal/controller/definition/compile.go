package definition

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/object"
)

// compiled is what became of a definition's spec.
type compiled struct {
	graph    *graph.Graph
	problems diag.List
}

// compile compiles the definition, unless neither it nor a kind that it uses has
// changed since the last time.
func (r *Reconciler) compile(v *visit) {
	if len(v.compiled.problems) > 0 {
		return // the spec can't be read
	}
	e := v.entry
	if e.compiledFor != "" && e.compiledFor == fingerprint(v.spec, e.kinds, r.Kinds.Lookup) {
		v.compiled = e.last
		return
	}
	var kinds []schema.GroupVersionKind
	seen := map[schema.GroupVersionKind]looked{}
	lookup := func(gvk schema.GroupVersionKind) (graph.Kind, bool) {
		if answer, again := seen[gvk]; again {
			return answer.kind, answer.known
		}
		kind, known := r.Kinds.Lookup(gvk)
		kinds = append(kinds, gvk)
		seen[gvk] = looked{kind, known}
		return kind, known
	}
	g, problems := graph.Compile(v.spec, lookup)
	v.compiled = compiled{graph: g, problems: problems}
	e.kinds, e.last = kinds, v.compiled
	// What was seen counts, not what is there by now: a kind may have appeared
	// while this was compiled.
	e.compiledFor = fingerprint(v.spec, kinds, lookup)
	r.Registry.setUses(e, kinds)
	if e.compiledFor != fingerprint(v.spec, kinds, r.Kinds.Lookup) {
		r.wake(v.key) // it did, before anybody knew that this definition cares
	}
}

// looked is what a lookup found.
type looked struct {
	kind  graph.Kind
	known bool
}

// fingerprint names the input of a compilation: the spec, and the kinds as they
// are by the given lookup.
func fingerprint(spec *v1alpha1.DefinitionSpec, kinds []schema.GroupVersionKind, lookup graph.Kinds) string {
	input := []any{spec}
	for _, gvk := range kinds {
		kind, known := lookup(gvk)
		input = append(input, gvk, known, kind.Namespaced, kind.Nested, kind.Revision)
	}
	return object.Digest(input)
}
