package definition

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

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
	if e.compiledFor != "" && e.compiledFor == r.fingerprint(v, e.kinds) {
		v.compiled = e.last
		return
	}
	var kinds []schema.GroupVersionKind
	g, problems := graph.Compile(v.spec, func(gvk schema.GroupVersionKind) (graph.Kind, bool) {
		kinds = append(kinds, gvk)
		return r.Kinds.Lookup(gvk)
	})
	v.compiled = compiled{graph: g, problems: problems}
	e.kinds, e.last = kinds, v.compiled
	e.compiledFor = r.fingerprint(v, kinds)
	r.Registry.setUses(e, kinds)
}

// fingerprint names the input of a compilation: the spec, and the kinds as they
// are now.
func (r *Reconciler) fingerprint(v *visit, kinds []schema.GroupVersionKind) string {
	input := []any{v.spec}
	for _, gvk := range kinds {
		kind, known := r.Kinds.Lookup(gvk)
		input = append(input, gvk, known, kind.Namespaced, kind.Nested, kind.Revision)
	}
	return object.Digest(input)
}
