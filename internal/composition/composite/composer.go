// Package composite composes composites: it selects a composite's composition and
// revision, runs the revision's pipeline once on the observed state and converts the
// desired state to nodes of the instance engine. It also computes the composite's
// conditions and references.
// See docs/design/0013-composites-and-functions.md.
package composite

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/telemetry/tracing"
)

// Composer composes the composites of a kind with one snapshot of its definition and
// compositions. It is immutable.
type Composer struct {
	xrd.Snapshot
	Runner pipeline.Runner
	Now    func() time.Time
	// Memories are shared by the composers of a kind; without any, each composition remembers nothing.
	Memories *Memories
	// Record is called with each step of the pipeline that has run, if it is not nil.
	Record func(pipeline.Recorded)
}

// ChildKinds is nil: the kinds of the children are only known after the pipeline has run.
func (c *Composer) ChildKinds() []schema.GroupVersionKind { return nil }

// Depth is the maximum number of rounds in one reconcile: each round lets functions see
// what the last one applied.
func (c *Composer) Depth() int { return 8 }

// StatusFields are the fields that the author's schema does not declare.
func (c *Composer) StatusFields() report.FieldSet { return xrd.UndeclaredStatusFields(c.Definition) }

// Defaults are what the definition's annotation says about the annotations of composites. The dialect
// has no deletion timeouts.
func (c *Composer) Defaults() inventory.Defaults { return xrd.DeletionDefaults(c.Definition) }

// SchemaUnknown is false for all kinds: functions render without schemas.
func (c *Composer) SchemaUnknown(schema.GroupVersionKind) bool { return false }

type memory struct {
	uid types.UID
	// lastDesired is the desired state of the last pipeline run that succeeded.
	lastDesired *pipeline.Desired
	required    map[string]*requirements
	// pending is the last run, if it ended with requirements that were not read yet.
	pending pendingRun
	// secrets are the values of Secrets that lastDesired may contain, and those that the last run was given.
	secrets secretValues
	// ambiguity is the message about an ambiguous choice of a composition in this reconcile.
	// Later rounds no longer see the ambiguity: the composite references the chosen one.
	ambiguity string
	// publishedAt is when the connection details were last written. publishPending is set
	// while the desired details are not written yet.
	publishedAt    string
	publishPending bool
	// moved are the resources that are composed in another namespace than functions name.
	moved movedResources
	// status is the desired author's part of the status from an earlier round of the same
	// reconcile; nil in the first round.
	status map[string]any
	// answers are what functions have answered while what others require is being read.
	answers answers
}

type compositeState struct {
	*Composer
	xr     xrd.Instance
	facts  plan.Facts
	memory *memory
	// needs are what has to be read before the composite can be composed.
	needs []plan.Need
	// secrets are the values of the Secrets that functions are given, in this run or the last.
	secrets secretValues
	// resourceNames contains the resource name of each of the composite's resourceRefs.
	resourceNames map[objectRef]string
}

// Compose selects the composition and its revision and runs the pipeline. If something
// cannot be read or fails, the last desired state stays.
func (c *Composer) Compose(ctx context.Context, facts plan.Facts) (plan.Desired, error) {
	s := c.newState(facts)
	s.requireScopes(s.memory.lastDesired)
	selected, problem, err := s.selectComposition()
	if err != nil {
		return plan.Desired{}, err
	}
	if problem.Reason != "" {
		return s.stay(problem), nil
	}
	tracing.SetRevision(ctx, selected.revision.Revision.GetName())
	s.memory.moved.begin(selected.revision.Name)
	steps, problem := s.pipelineSteps(selected.revision.Revision)
	s.requireKnown(steps)
	if len(s.needs) > 0 || problem.Reason != "" {
		return s.stay(problem), nil
	}
	observed, problem := s.observedState()
	if len(s.needs) > 0 || problem.Reason != "" {
		return s.stay(problem), nil
	}
	run := pipeline.Pipeline{Runner: s.memory.answers.remembering(c.Runner), Fetcher: fetcher{s}, Record: c.Record}
	result := run.Run(ctx, steps, pipeline.Request{Observed: observed})
	if s.requireScopes(result.Desired); len(s.needs) > 0 {
		return plan.Desired{Needs: s.needs}, nil
	}
	s.memory.answers = nil
	s.memory.recordRequirements(result)
	s.memory.recordPending(result)
	desired := s.desiredOf(result)
	desired.Fields = s.desiredFields(selected, desired.Nodes)
	if s.memory.ambiguity != "" {
		desired.Results = append(desired.Results, plan.Result{Warning: true, Reason: "AmbiguousComposition", Message: s.memory.ambiguity})
	}
	desired.Results = append(desired.Results, s.memory.moved.warnings(desired.Nodes)...)
	if r := selected.revision.Invalid; r != nil {
		desired.Results = append(desired.Results, plan.Result{Warning: true, Reason: xrd.InvalidPipeline, Message: fmt.Sprintf(
			"the pipeline of revision %d (%s) is invalid, so the composite stays at revision %d; correct composition %s: kubectl describe compositionrevision %s",
			r.Spec.Revision, r.Name, selected.revision.Revision.Spec.Revision, selected.composition.Name, r.Name)})
	}
	return desired, nil
}

// newState is the state of a composite before anything is selected. The first round of a reconcile
// forgets what the rounds of the last one remembered for each other.
func (c *Composer) newState(facts plan.Facts) *compositeState {
	s := &compositeState{
		Composer: c, facts: facts, memory: c.Memories.of(facts.Instance),
		xr:            xrd.NewInstance(facts.Instance, xrd.LayoutOf(c.Definition.ScopeOrDefault())),
		resourceNames: map[objectRef]string{},
	}
	for _, ref := range s.xr.ResourceRefs() {
		s.resourceNames[objectRefOf(ref)] = ref.ResourceName
	}
	if facts.Round == 0 {
		s.memory.status, s.memory.ambiguity = nil, ""
	}
	if s.memory.answers == nil || len(facts.External) == 0 { // a round begins
		s.memory.answers = answers{}
	}
	return s
}

// lookup returns what was read of the cluster. What was not read yet is needed.
func (s *compositeState) lookup(need plan.Need) (found plan.Lookup, known bool) {
	if found, known = s.facts.External[need]; !known {
		s.needs = append(s.needs, need)
	}
	return found, known
}

type selection struct {
	composition xrd.CompositionChoice
	revision    xrd.RevisionChoice
}

func (s *compositeState) selectComposition() (selection, plan.Problem, error) {
	composition := xrd.SelectComposition(s.Compositions, s.xr, s.Definition)
	if composition.Problem != "" {
		return selection{}, plan.Problem{Reason: plan.CompositionMissing, Message: composition.String()}, nil
	}
	revision, known, err := s.selectRevision(composition.Composition)
	switch {
	case err != nil:
		return selection{}, plan.Problem{}, err
	case !known:
		return selection{}, plan.Problem{Reason: plan.Syncing, Message: "reading CompositionRevision " + s.xr.RevisionName()}, nil
	case revision.Problem == xrd.NoRevision:
		return selection{}, plan.Problem{Reason: plan.WaitingForRevision, Message: revision.String()}, nil
	case revision.Problem != "":
		return selection{}, plan.Problem{Reason: plan.CompositionMissing, Message: revision.String()}, nil
	}
	if composition.IsAmbiguous() {
		s.memory.ambiguity = composition.String()
	}
	return selection{composition, revision}, plan.Problem{}, nil
}

// desiredOf converts the result of a pipeline run to the engine's desired state, and remembers the values of the
// Secrets that it may contain.
func (s *compositeState) desiredOf(result pipeline.Result) plan.Desired {
	var desired plan.Desired
	given, former := s.secrets, s.memory.lastDesired
	s.secrets.merge(s.memory.secrets) // the former desired state may contain these
	switch {
	case result.Failure != nil:
		desired = s.keepLast(s.failureProblem(result.Failure))
		if result.Failure.IsTransient() {
			desired.Failure = redactedError{result.Failure, s.secrets.redact(result.Failure.Error())}
		} else {
			desired.RequeueAfter = fatalRetryInterval
		}
	case result.Desired != nil && len(result.Desired.Resources) > s.facts.Limits.WithDefaults().Objects:
		desired = s.keepLast(s.facts.Limits.TooMany(len(result.Desired.Resources), "the resources of its pipeline"))
		desired.Exceeded, desired.RequeueAfter = []plan.Limit{plan.ObjectsLimit}, fatalRetryInterval
	case result.Desired != nil:
		s.memory.lastDesired = result.Desired
		desired = plan.Desired{Nodes: s.nodes(result.Desired), RequeueAfter: requeueAfterTTL(result.TTL)}
		desired.Ready = readyOf(result.Desired.Ready)
		desired.Status = s.desiredStatus(result)
		desired.Unsettled = s.recordStatus(result)
	default:
		desired = s.keepLast(pendingProblem(result.Pending))
	}
	s.memory.secrets = given
	if s.memory.lastDesired == former {
		s.memory.secrets = s.secrets // the former desired state stays
	}
	desired.Conditions, desired.Results = s.resultConditions(result), s.functionResults(result)
	return desired
}

// requeueAfterTTL is the requeue interval for a TTL, at least a second. A TTL says that
// something may have changed by then; it isn't a request for a busy loop.
func requeueAfterTTL(ttl time.Duration) time.Duration {
	if ttl > 0 {
		return max(ttl, time.Second)
	}
	return 0
}

// fatalRetryInterval is when a pipeline runs again after a permanent failure, such as a
// Fatal result: the function may depend on something that cannot be watched.
const fatalRetryInterval = time.Minute

// stay is what is desired as long as there is a problem, or what has to be read before that is known.
func (s *compositeState) stay(problem plan.Problem) plan.Desired {
	if len(s.needs) > 0 {
		return plan.Desired{Needs: s.needs}
	}
	return s.keepLast(problem)
}

// keepLast returns the last desired nodes, if there are any, and the current status, with a
// problem. Because of the problem, the engine neither deletes children nor changes the rest.
func (s *compositeState) keepLast(problem plan.Problem) plan.Desired {
	status, _, _ := unstructured.NestedMap(s.facts.Instance.Object, "status")
	desired := plan.Desired{Problem: problem, Status: status}
	s.secrets.merge(s.memory.secrets)
	if s.memory.lastDesired != nil {
		desired.Nodes = s.nodes(s.memory.lastDesired)
	}
	return desired
}

// desiredFields are the changes of the composite's spec: its composition, its revision and
// its resourceRefs. The engine writes them before it creates children.
func (s *compositeState) desiredFields(selected selection, nodes []plan.Node) []inventory.Field {
	next := xrd.NewInstance(s.facts.Instance.DeepCopy(), s.xr.Layout())
	if name := selected.composition.Name; next.CompositionName() != name {
		next.SetCompositionName(name)
	}
	if name := selected.revision.Name; next.RevisionName() != name {
		next.SetRevisionName(name)
	}
	_, claimed := s.xr.ClaimRef()
	if selector, applies := xrd.DefaultRevisionSelector(s.xr, s.Definition); applies && !claimed { // a claim sets it on its composite
		next.SetRevisionSelector(selector)
	}
	if s.memory.lastDesired != nil { // otherwise the resources are unknown
		if refs := s.refs(nodes); !s.sameRefs(refs, nodes) {
			next.SetResourceRefs(refs)
		}
	}
	if ref, wanted := s.defaultSecretRef(selected.revision.Revision); wanted {
		next.SetConnectionSecretRef(ref)
	}
	return next.ChangedFields(s.xr)
}

// defaultSecretRef is the connection Secret of a composite that names none, in the namespace
// that the composition sets.
func (s *compositeState) defaultSecretRef(revision *v1.CompositionRevision) (xrd.SecretRef, bool) {
	_, has := s.xr.ConnectionSecretRef()
	namespace := revision.Spec.WriteConnectionSecretsToNamespace
	if has || namespace == nil || *namespace == "" || len(s.xr.Layout().ConnectionSecretRef) == 0 {
		return xrd.SecretRef{}, false
	}
	return xrd.SecretRef{Namespace: *namespace, Name: string(s.facts.Instance.GetUID())}, true
}
