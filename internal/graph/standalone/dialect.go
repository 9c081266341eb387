package standalone

import (
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// Dialect puts the state of a Graph into kro's words.
type Dialect struct{ instance.Graphs }

// Reasons of the condition ResourcesConverged.
const (
	waitingForReadiness  = "WaitingForReadiness"
	dataPending          = "DataPending"
	fieldManagerConflict = "FieldManagerConflict"
	applyFailed          = "ApplyFailed"
	deleting             = "Deleting"
	releaseFailed        = "ReleaseFailed"
)

// State is empty: a Graph has conditions only.
func (Dialect) State(v1alpha1.InstanceState) v1alpha1.InstanceState { return "" }

// LiveConditions says whether the nodes compile, and whether their objects are as desired and ready.
func (Dialect) LiveConditions(set condition.Set, desired plan.Desired, s plan.Summary, at instance.Moment) condition.Set {
	accepted := v1alpha1.Condition{Type: v1alpha1.GraphAccepted, Status: condition.True, Reason: v1alpha1.GraphCompiled, Message: "the graph is valid"}
	converged := v1alpha1.Condition{Type: v1alpha1.GraphResourcesConverged, Status: condition.True, Reason: v1alpha1.GraphApplied, Message: "all resources are applied and ready"}
	switch {
	case desired.Problem.Reason == plan.InvalidGraph:
		accepted.Status, accepted.Reason, accepted.Message = condition.False, v1alpha1.GraphInvalid, desired.Problem.Message
		converged.Status, converged.Reason, converged.Message = condition.Unknown, v1alpha1.GraphInvalid, "nothing is changed until the graph is valid"
	case s.InventoryProblem.Reason != "":
		converged.Status, converged.Reason, converged.Message = condition.False, applyFailed, s.InventoryProblem.Message
	case s.Reason != "":
		converged.Status, converged.Reason, converged.Message = condition.False, reasonOf(s.Reason), withRemedy(s.Message)
	}
	set = slices.DeleteFunc(slices.Clone(set), func(c v1alpha1.Condition) bool { return c.Type == v1alpha1.InstanceDrifted && s.Drifted == "" })
	set = at.Mark(at.Mark(set, accepted), converged)
	set = set.Mark(set.Summarize(v1alpha1.InstanceReady, at.Generation, v1alpha1.GraphAccepted, v1alpha1.GraphResourcesConverged), at.Now)
	if s.Drifted != "" {
		set = at.Mark(set, v1alpha1.Condition{Type: v1alpha1.InstanceDrifted, Status: condition.True, Reason: instance.DriftDetected, Message: s.Drifted})
	}
	return at.MarkProgress(set, instance.ProgressOf(set, s, desired))
}

func reasonOf(reason plan.Reason) string {
	switch {
	case reason == plan.FieldConflict, reason == plan.NotOwned, reason == plan.DriftContested:
		return fieldManagerConflict
	case reason == plan.WaitingForField:
		return dataPending
	case reason == plan.ReleaseFailed:
		return releaseFailed
	case reason.IsError(), reason == plan.Unavailable:
		return applyFailed
	}
	return waitingForReadiness
}

// SuspendedConditions says that it isn't known any more whether the resources are as desired.
func (Dialect) SuspendedConditions(set condition.Set, why string, at instance.Moment) condition.Set {
	return at.MarkProgress(notConverged(set, instance.Suspended, why, at), condition.Progress{})
}

// DeletionConditions says what the deletion waits for.
func (Dialect) DeletionConditions(set condition.Set, removal plan.Removal, at instance.Moment) condition.Set {
	return instance.Stalled(notConverged(set, deleting, plan.DeletionMessage(removal), at), removal, at)
}

func notConverged(set condition.Set, reason, message string, at instance.Moment) condition.Set {
	for _, kind := range []string{v1alpha1.GraphResourcesConverged, v1alpha1.InstanceReady} {
		set = at.Mark(set, v1alpha1.Condition{Type: kind, Status: condition.False, Reason: reason, Message: withRemedy(message)})
	}
	return set
}

// withRemedy adds what to do if the controllers may not act as the account: the API server's answer names only them, and
// the request that they made as the account.
func withRemedy(message string) string {
	if !strings.Contains(message, "cannot impersonate") {
		return message
	}
	return message + ". Grant the controllers the verb impersonate on the service account of the Graph"
}

// Problem is why the Graph isn't ready, if that needs an action of a user.
func (Dialect) Problem(set condition.Set) (reason, message string) {
	ready, _ := set.Get(v1alpha1.InstanceReady)
	if ready.Status == condition.False && slices.Contains([]string{v1alpha1.GraphInvalid, fieldManagerConflict, applyFailed, releaseFailed}, ready.Reason) {
		return ready.Reason, ready.Message
	}
	return "", ""
}
