package definition

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/object"
)

// compiled is what became of a definition's spec.
type compiled struct {
	graph    *graph.Graph
	problems diag.List
}

// compilation remembers what a spec came to: input names what it was compiled
// from, and kinds are what it looked up.
type compilation struct {
	spec  *v1alpha1.DefinitionSpec
	last  compiled
	input string
	kinds []schema.GroupVersionKind
}

// compile compiles the definition. Its result is unsure if it couldn't be found
// out what a kind is like.
func (r *Reconciler) compile(v *visit) {
	if len(v.compiled.problems) > 0 {
		return // the spec can't be read
	}
	v.entry.own.spec = v.spec
	if v.unsure = r.refresh(v, &v.entry.own); v.unsure == nil {
		v.compiled = v.entry.own.last
	}
}

// refresh compiles a spec, unless neither it nor a kind that it uses has changed
// since the last time.
func (r *Reconciler) refresh(v *visit, c *compilation) error {
	if c.input != "" {
		now := r.look()
		if input := now.input(c.spec, c.kinds); now.failed == nil && input == c.input {
			return nil
		}
		if now.failed != nil {
			return now.failed
		}
	}
	seen := r.look()
	g, problems := graph.Compile(c.spec, seen.lookup)
	if seen.failed != nil {
		return seen.failed
	}
	c.last, c.kinds = compiled{graph: g, problems: problems}, seen.kinds
	// What was seen counts, not what is there by now: a kind may have appeared
	// while this was compiled.
	c.input = seen.input(c.spec, c.kinds)
	r.Registry.setUses(v.entry)
	if c.input != r.look().input(c.spec, c.kinds) {
		r.wake(v.key) // it did, before anybody knew that this definition cares
	}
	return nil
}

// looking looks kinds up, each once, and remembers what it saw.
type looking struct {
	in    *cluster.Kinds
	seen  map[schema.GroupVersionKind]looked
	kinds []schema.GroupVersionKind
	// failed says that something couldn't be found out.
	failed error
}

// looked is what a lookup found.
type looked struct {
	kind  graph.Kind
	known bool
}

func (r *Reconciler) look() *looking {
	return &looking{in: r.Kinds, seen: map[schema.GroupVersionKind]looked{}}
}

// lookup fits graph.Kinds.
func (l *looking) lookup(gvk schema.GroupVersionKind) (graph.Kind, bool) {
	if answer, again := l.seen[gvk]; again {
		return answer.kind, answer.known
	}
	kind, known, err := l.in.Lookup(gvk)
	if err != nil {
		l.failed = &unsureError{kind: gvk, err: err}
	}
	l.kinds = append(l.kinds, gvk)
	l.seen[gvk] = looked{kind, known}
	return kind, known
}

// input names the input of a compilation: the spec, and the kinds as they are
// seen.
func (l *looking) input(spec *v1alpha1.DefinitionSpec, kinds []schema.GroupVersionKind) string {
	input := []any{spec}
	for _, gvk := range kinds {
		kind, known := l.lookup(gvk)
		input = append(input, gvk, known, kind.Namespaced, kind.Nested, kind.Revision)
	}
	return object.Digest(input)
}

// unsureError says that it couldn't be found out what a kind is like. Its text
// is the same whenever the cause is, so that it can stand in a status.
type unsureError struct {
	kind schema.GroupVersionKind
	err  error
}

func (u *unsureError) Error() string { return u.message() + ": " + u.err.Error() }
func (u *unsureError) Unwrap() error { return u.err }

func (u *unsureError) message() string {
	return fmt.Sprintf("can't find out about kind %s of %s now (%s); it is tried again",
		u.kind.Kind, strings.TrimPrefix(u.kind.GroupVersion().String(), "/"), cluster.Discreet(u.err))
}
