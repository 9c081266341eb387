package graph

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/functions/call"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// addConditions adds the author's conditions to the response. Types that the engine or this
// function sets are refused with a Warning.
func (c *composition) addConditions(out *call.Response, author plan.AuthorConditions) {
	for _, one := range author.Conditions {
		status := call.StatusUnknown
		switch one.Status {
		case metav1.ConditionTrue:
			status = call.StatusTrue
		case metav1.ConditionFalse:
			status = call.StatusFalse
		default: // unknown
		}
		switch one.Type {
		case Resolved, "Ready", "Synced":
			out.Results = append(out.Results, call.Result{Severity: call.Warning,
				Message: "the condition type " + one.Type + " is reserved; rename the condition in " + string(c.dialect.prefix.Field("status"))})
		default:
			out.Conditions = append(out.Conditions, call.Condition{Type: one.Type, Status: status, Reason: one.Reason, Message: one.Message})
		}
	}
	for _, kind := range author.Types {
		if !slices.ContainsFunc(author.Conditions, func(c v1alpha1.Condition) bool { return c.Type == kind }) {
			out.Conditions = append(out.Conditions, call.Condition{Type: kind, Reason: "Pending", Message: "the values that it is computed from don't exist yet"})
		}
	}
	for _, why := range author.Problems {
		out.Results = append(out.Results, call.Result{Severity: call.Warning, Message: c.dialect.text(why)})
	}
}
