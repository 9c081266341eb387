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

// status is what the functions want the composite's status to be, with what the machinery
// has in it beside conditions.
func (s *sitting) status(outcome pipeline.Outcome) map[string]any {
	wanted, _ := outcome.Desired.Composite["status"].(map[string]any)
	status := xrd.AuthorStatus(wanted, s.Definition)
	places := s.xr.Places()
	if at := s.publishedAt(outcome.Desired); at != "" {
		places.LastPublishedTime.Put(status, at)
	}
	var types []any
	for _, c := range outcome.Conditions {
		if c.Claim {
			types = append(types, c.Type)
		}
	}
	if len(types) > 0 {
		slices.SortFunc(types, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
		places.ClaimConditionTypes.Put(status, types)
	}
	return status
}

// settleStatus notes what the functions want of the author's part of the status, which
// they see in the next turn, and reports whether it is something else than they have seen
// in this one.
func (s *sitting) settleStatus(outcome pipeline.Outcome) (changed bool) {
	seen := s.memory.status
	if seen == nil {
		status, _ := s.facts.Instance.Object["status"].(map[string]any)
		seen = xrd.AuthorStatus(status, s.Definition)
	}
	wanted, _ := outcome.Desired.Composite["status"].(map[string]any)
	s.memory.status = xrd.AuthorStatus(wanted, s.Definition)
	return object.Digest(seen) != object.Digest(s.memory.status)
}

// conditions are those that functions set.
func conditions(outcome pipeline.Outcome) []v1alpha1.Condition {
	var out []v1alpha1.Condition
	for _, c := range outcome.Conditions {
		out = append(out, v1alpha1.Condition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message})
	}
	return out
}

// results are what functions have people told.
func results(outcome pipeline.Outcome) []plan.Result {
	var out []plan.Result
	for _, r := range outcome.Results {
		out = append(out, plan.Result{Warning: r.Warning, Reason: r.Reason, Message: r.String(), Claim: r.Claim})
	}
	var fatal *pipeline.FatalError
	if outcome.Failure != nil && errors.As(outcome.Failure, &fatal) {
		out = append(out, plan.Result{Warning: true, Reason: fatal.Reason, Message: outcome.Failure.Error(), Claim: fatal.Claim})
	}
	return out
}

func failed(f *pipeline.Failure) plan.Problem {
	return plan.Problem{Reason: plan.PipelineFailed, Message: "cannot compose resources: " + f.Error()}
}

// waiting says what a run lacks that will be known in a moment.
func waiting(wants []pipeline.Want) plan.Problem {
	var texts []string
	for _, w := range wants {
		texts = append(texts, fmt.Sprintf("step %q requires %s", w.Step, w.Key))
	}
	return plan.Problem{Reason: plan.Syncing, Message: "reading what functions require: " + strings.Join(texts, "; ")}
}
