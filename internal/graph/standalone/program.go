package standalone

import (
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/definition"
	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
)

// program is what a Graph was last compiled to. Graphs.mu guards account, kinds, computed and composer; only reconciles of the Graph
// access the rest.
type program struct {
	account *account
	// kinds are the kinds that the nodes name.
	kinds []schema.GroupVersionKind
	// computed are the kinds of nodes that have been computed, by the nodes' ids.
	computed map[string]schema.GroupVersionKind
	composer instance.Composer

	// input identifies what was compiled, and accepted says that it has no problems. Good is the last graph without problems.
	input    string
	accepted bool
	good     *graph.Graph
	// revisions are the accepted specs that are kept.
	revisions []v1alpha1.SpecRevision
}

// compile compiles a Graph, unless neither its nodes nor their kinds have changed. It fails if a kind cannot be looked up.
func (g *Graphs) compile(ctx context.Context, key object.Key, p *program, o *unstructured.Unstructured, user string) error {
	fields, _, _ := unstructured.NestedMap(o.Object, "spec")
	spec, problems := graph.ReadGraph(fields)
	computed := g.computedKinds(p)
	uses := graph.UsedKindsOfGraph(spec, computed)
	kinds, err := definition.LookUpKinds(ctx, g.Kinds, uses)
	if err != nil {
		return err
	}
	input := definition.InputOf([]any{spec, user, computed}, uses, kinds)
	if input == p.input {
		return nil
	}
	compiled, found := graph.CompileGraph(spec, kinds, graph.WithSecretOutputs(g.SecretOutputs), graph.WithComputedKinds(computed))
	problems.Add(found...)
	if user == g.Cluster.Username(ctx) {
		problems.Addf("spec.serviceAccountName", "the controllers have this account; name another one, with the permissions that the nodes need")
	}
	if p.accepted = len(problems) == 0; p.accepted {
		p.good = compiled
	}
	next := composerOf(p, user, func(kinds map[string]schema.GroupVersionKind) { g.noteKinds(key, p, kinds) })
	if !p.accepted {
		next = instance.Frozen{Composer: next, Problem: plan.Problem{Reason: plan.InvalidGraph, Message: message(problems)}}
	}
	g.mu.Lock()
	p.input, p.kinds, p.composer = input, uses, next
	g.mu.Unlock()
	if again, err := definition.LookUpKinds(ctx, g.Kinds, uses); err != nil || definition.InputOf([]any{spec, user, computed}, uses, again) != input {
		g.Enqueue(key) // a kind changed before its use by this Graph was known
	}
	return nil
}

// maxMessageLength bounds the problems in a condition, in bytes.
const maxMessageLength = 32 << 10

func message(problems diag.List) string {
	return diag.Truncate(problems.Sorted().Err().Error(), maxMessageLength)
}

// noNodes composes a Graph that has never been valid.
var noNodes = definition.ComposerOf(
	&graph.Graph{Kind: graph.GraphKind, Namespaced: true, Listed: graph.MaxListedOfGraph, StatusFields: report.UndeclaredFields(nil)}, inventory.Overrides{})

func composerOf(p *program, user string, note func(map[string]schema.GroupVersionKind)) instance.Composer {
	out := composer{noNodes, user, note, p}
	if p.good != nil {
		out.Composer = definition.ComposerOf(p.good, inventory.Overrides{})
	}
	return out
}

func (g *Graphs) computedKinds(p *program) map[string]schema.GroupVersionKind {
	g.mu.Lock()
	defer g.mu.Unlock()
	return p.computed
}

// noteKinds has a Graph compiled again if kinds of its nodes are computed that it has not been compiled with. A kind that
// cannot be computed any more stays.
func (g *Graphs) noteKinds(key object.Key, p *program, kinds map[string]schema.GroupVersionKind) {
	next := map[string]schema.GroupVersionKind{}
	g.mu.Lock()
	maps.Copy(next, p.computed)
	maps.Copy(next, kinds)
	changed := !maps.Equal(next, p.computed)
	p.computed = next
	g.mu.Unlock()
	if changed {
		g.Enqueue(key)
	}
}

// composer composes one Graph, and its status.
type composer struct {
	instance.Composer
	user string
	// note is told the kinds of nodes that are computed.
	note func(map[string]schema.GroupVersionKind)
	// program has the revisions; nil for a Graph that has not been compiled since the start.
	program *program
}

// appliedField is the field of a status with the user who wrote last.
const appliedField = "appliedServiceAccount"

// Compose adds to the status who has written the objects, and which specs are kept.
func (c composer) Compose(ctx context.Context, facts plan.Facts) (plan.Desired, error) {
	desired, err := c.Composer.Compose(ctx, facts)
	if err != nil {
		return desired, err
	}
	if len(desired.Kinds) > 0 {
		c.note(desired.Kinds)
	}
	if desired.Status == nil {
		desired.Status = map[string]any{}
	}
	if c.program != nil && len(c.program.revisions) > 0 {
		desired.Status[revisionsField] = statusOf(c.program.revisions)
	}
	desired.Status[appliedField] = c.user
	if before, _, _ := unstructured.NestedString(facts.Instance.Object, "status", appliedField); before != "" && len(facts.Problems) > 0 {
		desired.Status[appliedField] = before // this user has not written everything yet
	}
	return desired, nil
}

// chooser composes each Graph by its own program. What it embeds has no nodes.
type chooser struct {
	composer
	graphs *Graphs
}

// Choose returns the composer of a Graph. A reconcile of it has just compiled it.
func (c chooser) Choose(o *unstructured.Unstructured) instance.Composer {
	c.graphs.mu.Lock()
	defer c.graphs.mu.Unlock()
	key := object.Key{Group: v1alpha1.GroupVersion.Group, Kind: v1alpha1.GraphKind, Namespace: o.GetNamespace(), Name: o.GetName()}
	if p := c.graphs.programs[key]; p != nil && p.composer != nil {
		return p.composer
	}
	return c.composer
}
