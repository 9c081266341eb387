package graph

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/functions/call"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// addConditions answers with the author's conditions. Those that are the engine's or this
// function's own to write stay theirs.
func (c *composing) addConditions(out *call.Response, said plan.AuthorConditions) {
	for _, one := range said.Conditions {
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
			out.Results = append(out.Results, call.Result{Severity: call.Warning, Message: "a condition of the author's is of type " + one.Type + ", which isn't the author's to write"})
		default:
			out.Conditions = append(out.Conditions, call.Condition{Type: one.Type, Status: status, Reason: one.Reason, Message: one.Message})
		}
	}
	for _, kind := range said.Types {
		if !slices.ContainsFunc(said.Conditions, func(c v1alpha1.Condition) bool { return c.Type == kind }) {
			out.Conditions = append(out.Conditions, call.Condition{Type: kind, Reason: "Pending", Message: "what it is made of isn't there yet"})
		}
	}
	for _, why := range said.Problems {
		out.Results = append(out.Results, call.Result{Severity: call.Warning, Message: strings.ReplaceAll(why, statusInDefinition, statusInInput)})
	}
}
