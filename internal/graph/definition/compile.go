package definition

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/revision"
)

// compiled is what became of a definition's spec.
type compiled struct {
	graph    *graph.Graph
	problems diag.List
}

// compilation remembers what a spec came to: input names what it was compiled
// from, and kinds are what it looked up. Good is the last graph that it came to, which
// goes on serving when a kind becomes another.
type compilation struct {
	spec  *v1alpha1.DefinitionSpec
	last  compiled
	good  *graph.Graph
	input string
	kinds []schema.GroupVersionKind
}

// compile compiles the definition, or the revision that it is. lookupErr says if it
// could not be found out what a kind is like.
func (r *Dialect) compile(ctx context.Context, v *session) {
	if len(v.result.problems) > 0 {
		r.compileReadable(ctx, v)
		return
	}
	c := v.memory.compiled.own
	if one := revision.Current(v.history.revisions, v.memory.cache.hash(v.Unstructured, v.source.spec), v.memory.cache.hashOf); one != nil {
		v.history.current = one.Spec.Revision
		c = r.compilationOf(v, one)
	} else {
		c.spec = revision.Content(v.source.spec)
	}
	if v.lookupErr = r.recompile(ctx, v, c); v.lookupErr == nil {
		v.result = c.last
	}
}

// compileReadable adds to what is wrong with a spec before it is compiled what else is wrong
// with it. It is compiled for good when that is mended.
func (r *Dialect) compileReadable(ctx context.Context, v *session) {
	kinds, err := lookUpKinds(ctx, r.Kinds, graph.Uses(v.source.readable))
	if err != nil {
		return // what can't be read is told all the same
	}
	_, problems := graph.Compile(v.source.readable, kinds)
	v.result.problems.Add(problems...)
}

// recompile compiles a spec, unless neither it nor a kind that it uses has changed
// since the last time.
func (r *Dialect) recompile(ctx context.Context, v *session, c *compilation) error {
	uses := graph.Uses(c.spec)
	kinds, err := lookUpKinds(ctx, r.Kinds, uses)
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		v.kindAbsent = v.kindAbsent || kind.Absent
	}
	input := inputOf(c.spec, uses, kinds)
	if input == c.input {
		return nil
	}
	g, problems := graph.Compile(c.spec, kinds)
	c.last, c.kinds, c.input = compiled{graph: g, problems: problems}, uses, input
	if g != nil {
		c.good = g
	}
	r.Registry.setUses(v.registered)
	if again, err := lookUpKinds(ctx, r.Kinds, uses); err != nil || inputOf(c.spec, uses, again) != input {
		r.Wake(v.Key) // a kind changed before anybody knew that this definition cares
	}
	return nil
}

// lastGood is the last graph that a definition came to which compiled once. After a restart
// at which a kind is no more as it was then, it is what can be served of it all the same.
func (r *Dialect) lastGood(ctx context.Context, c *compilation) *graph.Graph {
	if c.good == nil {
		if kinds, err := lookUpKinds(ctx, r.Kinds, c.kinds); err == nil { // otherwise the next pass finds out
			c.good = graph.CompileAccepted(c.spec, kinds)
		}
	}
	return c.good
}

// lookUpKinds finds out what is known of kinds.
func lookUpKinds(ctx context.Context, all *kube.Kinds, uses []schema.GroupVersionKind) (graph.Kinds, error) {
	out := graph.Kinds{}
	for _, gvk := range uses {
		kind, known, err := all.Lookup(ctx, gvk)
		if err != nil {
			return nil, &lookupError{kind: gvk, err: err}
		}
		if known || kind.Absent {
			out[gvk] = kind
		}
	}
	return out, nil
}

// inputOf names the input of a compilation: the spec, and the kinds as they are
// seen.
func inputOf(spec *v1alpha1.DefinitionSpec, uses []schema.GroupVersionKind, kinds graph.Kinds) string {
	input := []any{spec}
	for _, gvk := range uses {
		kind, known := kinds[gvk]
		input = append(input, gvk, known, kind.Namespaced, kind.Nested, kind.Names, kind.Revision, kind.Absent, kind.Siblings)
	}
	return object.Digest(input)
}

// lookupError says that it couldn't be found out what a kind is like. Its text
// is the same whenever the cause is, so that it can stand in a status.
type lookupError struct {
	kind schema.GroupVersionKind
	err  error
}

func (u *lookupError) Error() string { return u.message() + ": " + u.err.Error() }
func (u *lookupError) Unwrap() error { return u.err }

func (u *lookupError) message() string {
	return fmt.Sprintf("can't find out about kind %s of %s now (%s); it is tried again",
		u.kind.Kind, strings.TrimPrefix(u.kind.GroupVersion().String(), "/"), kube.RedactedMessage(u.err))
}
