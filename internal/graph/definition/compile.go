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

type compiled struct {
	graph    *graph.Graph
	problems diag.List
}

// compilation caches the result of compiling a spec, which is set during a reconcile. input identifies the spec and
// its kinds, and kinds are those that it looked up. good is the last graph that compiled, which continues to serve if
// a change of a kind breaks the definition.
type compilation struct {
	spec  *v1alpha1.DefinitionSpec
	last  compiled
	good  *graph.Graph
	input string
	kinds []schema.GroupVersionKind
}

// compile sets lookupErr if a kind cannot be looked up.
func (v *session) compile(ctx context.Context) {
	if len(v.result.problems) > 0 {
		v.compileReadable(ctx)
		return
	}
	c := v.memory.compiled.own
	if one := revision.Current(v.history.revisions, v.memory.cache.hash(v.Unstructured, v.source.spec), v.account.recorded(), v.memory.cache.hashOf); one != nil {
		v.history.current = one.Spec.Revision
		c = v.compilationOf(one)
	} else {
		c.spec = revision.Content(v.source.spec)
	}
	if v.lookupErr = v.recompile(ctx, c); v.lookupErr != nil {
		return
	}
	v.result = c.last
	if problems := graph.CheckInstanceOverrides(v.source.spec); len(problems) > 0 { // a revision doesn't have them
		problems.Add(c.last.problems...)
		v.result = compiled{problems: problems}
	}
}

// compileReadable adds the problems of the readable part of a spec to the problems of decoding it. The spec is
// compiled as a whole once it can be decoded.
func (v *session) compileReadable(ctx context.Context) {
	kinds, err := LookUpKinds(ctx, v.Kinds, graph.UsedKinds(v.source.readable))
	if err != nil {
		return // the problems of decoding are reported anyway
	}
	_, problems := graph.Compile(v.source.readable, kinds, graph.WithSecretOutputs(v.SecretOutputs))
	v.result.problems.Add(problems...)
}

// recompile compiles a spec, unless neither it nor a kind that it uses has changed
// since the last time.
func (v *session) recompile(ctx context.Context, c *compilation) error {
	uses := graph.UsedKinds(c.spec)
	kinds, err := LookUpKinds(ctx, v.Kinds, uses)
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		v.kindAbsent = v.kindAbsent || kind.NeverServed
	}
	input := InputOf(c.spec, uses, kinds)
	if input == c.input {
		return nil
	}
	g, problems := graph.Compile(c.spec, kinds, graph.WithSecretOutputs(v.SecretOutputs))
	c.last, c.kinds, c.input = compiled{graph: g, problems: problems}, uses, input
	if g != nil {
		c.good = g
	}
	v.Registry.setUses(v.registered)
	if again, err := LookUpKinds(ctx, v.Kinds, uses); err != nil || InputOf(c.spec, uses, again) != input {
		v.EnqueueDefinition(v.Key) // a kind changed before its use by this definition was registered
	}
	return nil
}

// acceptSecretOutputs is for definitions that were accepted before, perhaps by a release that did
// not refuse data of Secrets in outputs.
var acceptSecretOutputs = graph.WithSecretOutputs(graph.WarnOfSecretOutputs)

// lastGood is the last graph of a definition that compiled before. If a kind has changed
// during a restart, it is a graph of the parts that still compile.
func (r *Dialect) lastGood(ctx context.Context, c *compilation) *graph.Graph {
	if c.good == nil {
		if kinds, err := LookUpKinds(ctx, r.Kinds, c.kinds); err == nil { // otherwise the next reconcile retries
			c.good = graph.CompileAccepted(c.spec, kinds)
		}
	}
	return c.good
}

// LookUpKinds describes kinds that a graph uses. Its error has a stable message for the same cause.
func LookUpKinds(ctx context.Context, all *kube.Kinds, uses []schema.GroupVersionKind) (graph.Kinds, error) {
	out := graph.Kinds{}
	for _, gvk := range uses {
		kind, known, err := all.Lookup(ctx, gvk)
		if err != nil {
			return nil, &lookupError{kind: gvk, err: err}
		}
		if known || kind.NeverServed {
			out[gvk] = kind
		}
	}
	return out, nil
}

// InputOf identifies a spec and its kinds: the same input gives the same graph.
func InputOf(spec any, uses []schema.GroupVersionKind, kinds graph.Kinds) string {
	input := []any{spec}
	for _, gvk := range uses {
		kind, known := kinds[gvk]
		input = append(input, gvk, known, kind.Namespaced, kind.ServedByDefinition, kind.NameRule, kind.Revision, kind.NeverServed, kind.Siblings)
	}
	return object.Digest(input)
}

// lookupError is the error of a kind that cannot be looked up. Its message is stable for the same cause, so it can be
// part of a status.
type lookupError struct {
	kind schema.GroupVersionKind
	err  error
}

func (u *lookupError) Error() string { return u.message() + ": " + u.err.Error() }
func (u *lookupError) Unwrap() error { return u.err }

func (u *lookupError) message() string {
	return fmt.Sprintf("cannot look up kind %s of %s: %s; retrying",
		u.kind.Kind, strings.TrimPrefix(u.kind.GroupVersion().String(), "/"), kube.RedactedMessage(u.err))
}
