package composite

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/composition/pipeline/structs"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

type requirements = fnv1.Requirements

var secretKind = corev1.SchemeGroupVersion.WithKind("Secret")

func (s *compositeState) pipelineSteps(revision *v1.CompositionRevision) ([]pipeline.Step, plan.Problem) {
	steps := make([]pipeline.Step, 0, len(revision.Spec.Pipeline))
	for _, p := range revision.Spec.Pipeline {
		step, err := NewStep(p)
		if err != nil {
			return nil, stepProblem(p.Step, err.Error())
		}
		step.LastRequirements, step.UnsettledRuns = s.memory.required[p.Step], s.memory.pending.unsettledRuns(p.Step)
		var problem plan.Problem
		if step.Credentials, problem = s.credentials(p); problem.Reason != "" {
			return nil, problem
		}
		steps = append(steps, step)
	}
	return steps, plan.Problem{}
}

// NewStep returns a step without credentials.
func NewStep(p v1.PipelineStep) (pipeline.Step, error) {
	step := pipeline.Step{Name: p.Step, Function: p.FunctionRef.Name, Requirements: stepRequirements(p.Requirements)}
	if p.Input == nil || len(p.Input.Raw) == 0 {
		return step, nil
	}
	var err error
	if step.Input, err = structs.FromJSON(p.Input.Raw); err != nil {
		return step, fmt.Errorf("cannot read its input: %w", err)
	}
	return step, nil
}

func stepProblem(step, what string) plan.Problem {
	return plan.Problem{Reason: plan.PipelineFailed, Message: fmt.Sprintf("cannot compose resources: step %q: %s", step, what)}
}

func (s *compositeState) credentials(p v1.PipelineStep) (map[string]map[string][]byte, plan.Problem) {
	out := map[string]map[string][]byte{}
	for _, c := range p.Credentials {
		if c.Source != v1.CredentialsSecret || c.SecretRef == nil {
			continue
		}
		secret, known := s.lookup(plan.Need{Kind: secretKind, Namespace: c.SecretRef.Namespace, Name: c.SecretRef.Name})
		switch {
		case !known:
			continue
		case secret.Unreadable != nil:
			return nil, plan.Problem{Reason: secret.Unreadable.Reason, Message: fmt.Sprintf("step %q: cannot read its credentials: %s", p.Step,
				secret.Unreadable.Message)}
		case secret.Object == nil:
			return nil, stepProblem(p.Step, fmt.Sprintf("Secret %[2]s/%[3]s of its credentials %[1]s doesn't exist; create it", c.Name, c.SecretRef.Namespace,
				c.SecretRef.Name))
		}
		out[c.Name] = object.SecretData(secret.Object)
		s.secrets.add(out[c.Name])
	}
	return out, plan.Problem{}
}

func stepRequirements(r *v1.FunctionRequirements) *requirements {
	if r == nil {
		return nil
	}
	out := &requirements{Resources: map[string]*fnv1.ResourceSelector{}, Schemas: map[string]*fnv1.SchemaSelector{}}
	for _, resource := range r.RequiredResources {
		selector := &fnv1.ResourceSelector{ApiVersion: resource.APIVersion, Kind: resource.Kind, Namespace: resource.Namespace}
		switch {
		case resource.Name != nil:
			selector.Match = &fnv1.ResourceSelector_MatchName{MatchName: *resource.Name}
		case len(resource.MatchLabels) > 0:
			selector.Match = &fnv1.ResourceSelector_MatchLabels{MatchLabels: &fnv1.MatchLabels{Labels: resource.MatchLabels}}
		}
		out.Resources[resource.RequirementName] = selector
	}
	for _, kind := range r.RequiredSchemas {
		out.Schemas[kind.RequirementName] = &fnv1.SchemaSelector{ApiVersion: kind.APIVersion, Kind: kind.Kind}
	}
	return out
}

func (m *memory) recordRequirements(result pipeline.Result) {
	if result.Desired == nil {
		return
	}
	m.required = make(map[string]*requirements, len(result.Progress))
	for _, p := range result.Progress {
		m.required[p.Step] = p.Requirements
	}
}

type pendingRun struct {
	step         string
	requirements *requirements
	// calls is the number of calls of all steps. It grows from run to run while the requirements of a function lead
	// to other ones, because each run has read more of them.
	calls int
	// unsettled is the number of such runs in a row with other requirements that got no further than the run before.
	unsettled int
}

// unsettledRuns counts those of a step.
func (p pendingRun) unsettledRuns(step string) int {
	if p.step != step {
		return 0
	}
	return p.unsettled
}

// recordPending remembers a run that ended with pending requirements. Each run requires anew, so without this a
// function with other requirements at each call would be called forever, and each call would start a watch.
func (m *memory) recordPending(result pipeline.Result) {
	if len(result.Pending) == 0 {
		m.pending = pendingRun{}
		return
	}
	last, next := m.pending, pendingRun{unsettled: m.pending.unsettled}
	for _, p := range result.Progress {
		next.calls += p.Calls
		next.step, next.requirements = p.Step, p.Requirements
	}
	if last.step != "" && next.calls <= last.calls && !proto.Equal(next.requirements, last.requirements) {
		next.unsettled++
	}
	m.pending = next
}
