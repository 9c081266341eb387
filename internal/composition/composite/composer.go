// Package composite composes composites: it runs the pipeline of the composition that a
// composite is composed by, once for what is known now, and says what the functions
// want in the engine's terms. How the composite itself says how it is, is here too.
package composite

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

// Composer composes the composites of a kind by what its definition and compositions
// are at one time. It is immutable.
type Composer struct {
	xrd.Snapshot
	Runner pipeline.Runner
	Now    func() time.Time
}

// Written is not known before the pipeline has run.
func (c *Composer) Written() []schema.GroupVersionKind { return nil }

// Depth is how often what functions see may let them want more, in one pass.
func (c *Composer) Depth() int { return 8 }

// Room is what the author's status leaves.
func (c *Composer) Room() report.Room { return xrd.Room(c.Definition) }

// Defaults has nothing: the dialect knows no limits of deletion.
func (c *Composer) Defaults() inventory.Defaults { return inventory.Defaults{} }

// Untyped is no kind: functions render without schemas.
func (c *Composer) Untyped(schema.GroupVersionKind) bool { return false }

// memory is what is remembered of a composite between passes.
type memory struct {
	// good is what the functions wanted when they last all ran.
	good *pipeline.Desired
	// required is what each step last required.
	required map[string]*requirements
	// chance is what was said of the choice of a composition that could have been another,
	// in this pass: from then on the composite names the one that was chosen.
	chance string
	// published is when the connection details were last written, and unpublished says that
	// those that are wanted haven't been.
	published   string
	unpublished bool
	// status is what functions have wanted the author's part of the status to be in an
	// earlier turn of the same pass; nil in the first.
	status map[string]any
}

// sitting is one composition of one composite.
type sitting struct {
	*Composer
	xr     xrd.Instance
	facts  plan.Facts
	world  instance.ClusterState
	memory *memory
	// named are the names in the composition by which the composite refers to objects.
	named map[where]string
}

// Compose chooses the composition and runs its pipeline. What it can't find out or what
// fails leaves what was last wanted in place.
func (c *Composer) Compose(ctx context.Context, facts plan.Facts, world instance.ClusterState) (plan.Desired, error) {
	s := &sitting{
		Composer: c, facts: facts, world: world, memory: remembered(world),
		xr: xrd.At(facts.Instance, xrd.PlacesOf(c.Definition.ScopeOrDefault())),
	}
	s.named = map[where]string{}
	for _, ref := range s.xr.Composed() {
		s.named[whereIs(ref)] = ref.ResourceName
	}
	if world.Round() == 0 {
		s.memory.status, s.memory.chance = nil, ""
	}
	choice := xrd.Select(c.Compositions, s.xr, c.Definition)
	if choice.Lack != "" {
		return s.stay(plan.Problem{Reason: plan.CompositionMissing, Message: choice.String()}), nil
	}
	chosen := xrd.Revision(c.Revisions, choice.Name, s.xr, c.Definition)
	switch chosen.Lack {
	case "":
	case xrd.NoneYet:
		return s.stay(plan.Problem{Reason: plan.WaitingForRevision, Message: chosen.String()}), nil
	default:
		return s.stay(plan.Problem{Reason: plan.CompositionMissing, Message: chosen.String()}), nil
	}
	steps, problem := s.steps(chosen.Revision)
	if problem.Reason != "" {
		return s.stay(problem), nil
	}
	observations, problem := s.observations(s.observed())
	if problem.Reason != "" {
		return s.stay(problem), nil
	}
	state, err := pipeline.Observed(s.composite(), observations)
	if err != nil {
		return s.stay(plan.Problem{Reason: plan.PipelineFailed, Message: "what is observed can't be told to functions: " + err.Error()}), nil
	}
	run := pipeline.Pipeline{Runner: c.Runner, Fetcher: fetcher{world}}
	outcome := run.Run(ctx, steps, pipeline.Request{Observed: state})
	s.memory.note(outcome)
	desired := s.conclude(outcome)
	desired.Fields = s.fields(choice, chosen, desired.Nodes)
	if choice.Ambiguous() {
		s.memory.chance = choice.String()
	}
	if s.memory.chance != "" {
		desired.Results = append(desired.Results, plan.Result{Warning: true, Reason: "AmbiguousComposition", Message: s.memory.chance})
	}
	return desired, nil
}

func remembered(world instance.ClusterState) *memory {
	slot := world.Memory()
	m, ok := (*slot).(*memory)
	if !ok {
		m = &memory{}
		*slot = m
	}
	return m
}

// conclude says in the engine's terms how a run ended.
func (s *sitting) conclude(outcome pipeline.Outcome) plan.Desired {
	var desired plan.Desired
	switch {
	case outcome.Failure != nil:
		desired = s.stay(failed(outcome.Failure))
		if outcome.Failure.Passing() {
			desired.Failure = outcome.Failure
		} else {
			desired.Again = slowly
		}
	case outcome.Desired != nil:
		s.memory.good = outcome.Desired
		desired = plan.Desired{Nodes: s.nodes(outcome.Desired), Again: atLeast(outcome.TTL)}
		desired.Ready = ready(outcome.Desired.Ready)
		desired.Status = s.status(outcome)
		desired.Unsettled = s.settleStatus(outcome)
	default:
		desired = s.stay(waiting(outcome.Waiting))
	}
	desired.Conditions, desired.Results = conditions(outcome), results(outcome)
	return desired
}

// atLeast is after how long a pipeline is run again that wants to be: functions mean
// that something may have changed by then, not that nothing else is to be done.
func atLeast(ttl time.Duration) time.Duration {
	if ttl > 0 {
		return max(ttl, time.Second)
	}
	return 0
}

// slowly is when a pipeline is run again whose function says that it can't do its work:
// it may look at what nobody here can watch.
const slowly = time.Minute

// stay wants what was last wanted, as far as that is known, with a problem that keeps the
// rest from being touched.
func (s *sitting) stay(problem plan.Problem) plan.Desired {
	status, _, _ := unstructured.NestedMap(s.facts.Instance.Object, "status")
	desired := plan.Desired{Problem: problem, Status: status}
	if s.memory.good != nil {
		desired.Nodes = s.nodes(s.memory.good)
	}
	return desired
}

// fields are what the composite has to say before anything is made for it: by what it is
// composed, and of what.
func (s *sitting) fields(choice xrd.Choice, chosen xrd.RevisionChoice, nodes []plan.Node) []inventory.Field {
	next := xrd.At(s.facts.Instance.DeepCopy(), s.xr.Places())
	if next.Composition() != choice.Name {
		next.SetComposition(choice.Name)
	}
	if next.Revision() != chosen.Name {
		next.SetRevision(chosen.Name)
	}
	_, claimed := s.xr.Claim()
	if selector, applies := xrd.DefaultRevisionSelector(s.xr, s.Definition); applies && !claimed { // a claim says it to its composite
		next.SetRevisionSelector(selector)
	}
	if s.memory.good != nil { // otherwise nobody knows of what
		if refs := s.refs(nodes); !s.refersTo(refs, nodes) {
			next.SetComposed(refs)
		}
	}
	if ref, wanted := s.secretFor(chosen.Revision); wanted {
		next.SetConnectionSecret(ref)
	}
	return next.Fields(s.xr)
}

// secretFor is where the connection details of a claimed composite go that doesn't say
// where.
func (s *sitting) secretFor(revision *v1.CompositionRevision) (xrd.SecretRef, bool) {
	_, has := s.xr.ConnectionSecret()
	namespace := revision.Spec.WriteConnectionSecretsToNamespace
	if has || namespace == nil || *namespace == "" || len(s.xr.Places().ConnectionSecretRef) == 0 {
		return xrd.SecretRef{}, false
	}
	return xrd.SecretRef{Namespace: *namespace, Name: string(s.facts.Instance.GetUID())}, true
}
