package composite

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
)

// desiredStatus is the composite's desired status without conditions: the author's part, as
// functions set it, and Crossplane's fields.
func (s *compositeState) desiredStatus(result pipeline.Result) map[string]any {
	wanted, _ := result.Desired.Composite["status"].(map[string]any)
	status := xrd.AuthorStatus(wanted, s.Definition)
	places := s.xr.Layout()
	if at := s.publishedAt(result.Desired); at != "" {
		places.LastPublishedTime.SetInStatus(status, at)
	}
	var types []any
	for _, c := range result.Conditions {
		if c.ForClaim {
			types = append(types, c.Type)
		}
	}
	if len(types) > 0 {
		slices.SortFunc(types, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
		places.ClaimConditionTypes.SetInStatus(status, types)
	}
	return status
}

// recordStatus remembers the author's part of the desired status, which functions see in
// the next round, and returns whether it differs from what they saw in this round.
func (s *compositeState) recordStatus(result pipeline.Result) (changed bool) {
	seen := s.memory.status
	if seen == nil {
		status, _ := s.facts.Instance.Object["status"].(map[string]any)
		seen = xrd.AuthorStatus(status, s.Definition)
	}
	wanted, _ := result.Desired.Composite["status"].(map[string]any)
	s.memory.status = xrd.AuthorStatus(wanted, s.Definition)
	return object.Digest(seen) != object.Digest(s.memory.status)
}

func (s *compositeState) resultConditions(result pipeline.Result) []v1alpha1.Condition {
	var out []v1alpha1.Condition
	for _, c := range result.Conditions {
		out = append(out, v1alpha1.Condition{Type: c.Type, Status: c.Status, Reason: s.secrets.redactReason(c.Reason), Message: s.secrets.redact(c.Message)})
	}
	return out
}

// functionResults includes a Fatal result.
func (s *compositeState) functionResults(result pipeline.Result) []plan.Result {
	var out []plan.Result
	for _, r := range result.Results {
		out = append(out, plan.Result{Warning: r.Warning, Reason: s.secrets.redactReason(r.Reason), Message: s.secrets.redact(r.String()), Claim: r.ForClaim})
	}
	var fatal *pipeline.FatalError
	if result.Failure != nil && errors.As(result.Failure, &fatal) {
		out = append(out, plan.Result{Warning: true, Reason: s.secrets.redactReason(fatal.Reason), Message: s.secrets.redact(result.Failure.Error()),
			Claim: fatal.ForClaim})
	}
	return out
}

func (s *compositeState) failureProblem(f *pipeline.Failure) plan.Problem {
	return plan.Problem{Reason: plan.PipelineFailed, Message: "cannot compose resources: " + s.secrets.redact(f.Error())}
}

func pendingProblem(pending []pipeline.PendingRequirement) plan.Problem {
	var texts []string
	for _, p := range pending {
		texts = append(texts, fmt.Sprintf("step %q requires %s", p.Step, p.Key))
	}
	return plan.Problem{Reason: plan.Syncing, Message: "reading what functions require: " + strings.Join(texts, "; ")}
}
