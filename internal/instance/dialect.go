package instance

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// Dialect puts the state of instances into the words of their kind. Implementations are pure.
type Dialect interface {
	// Suspended says why an instance is not to be reconciled, also when it is being deleted;
	// empty if it is.
	Suspended(instance *unstructured.Unstructured) string
	// SuspendedConditions, LiveConditions and DeletionConditions are an instance's conditions,
	// given those that it had: while it is suspended, while it lives, and while it is being
	// deleted.
	SuspendedConditions(before condition.Set, why string, at Moment) condition.Set
	LiveConditions(before condition.Set, desired plan.Desired, summary plan.Summary, at Moment) condition.Set
	DeletionConditions(before condition.Set, removal plan.Removal, at Moment) condition.Set
	// Problem is the problem in the conditions that may need an action of a user; empty if there
	// is none.
	Problem(condition.Set) (reason, message string)
	// References lists the objects that an instance itself names as its own. They may lack the
	// engine's labels, and name their owner in the dialect's way only: another implementation
	// of the dialect has made them.
	References(instance *unstructured.Unstructured) []Reference
	// State is the value of status.state; empty where the dialect has no such field.
	State(v1alpha1.InstanceState) v1alpha1.InstanceState
}

// Reference is an object that an instance names as its own. Node is the id of its node; empty if
// the object's metadata names it.
type Reference struct {
	plan.Need
	Node string
}

// Moment is the time of a condition, and the generation of the instance that it is of.
type Moment struct {
	Now        time.Time
	Generation int64
}

// Mark sets a condition.
func (m Moment) Mark(set condition.Set, c v1alpha1.Condition) condition.Set {
	c.ObservedGeneration = m.Generation
	return set.Mark(c, m.Now)
}

// MarkProgress sets the condition of a progress, and removes the other.
func (m Moment) MarkProgress(set condition.Set, p condition.Progress) condition.Set {
	return set.MarkProgress(p, m.Generation, m.Now)
}

// Graphs is the dialect of definitions of graphs.
type Graphs struct{}

// References is empty: children are found by their labels.
func (Graphs) References(*unstructured.Unstructured) []Reference { return nil }

// Problem is why the instance isn't ready, if that needs an action of a user.
func (Graphs) Problem(set condition.Set) (reason, message string) {
	if c, _ := set.Get(v1alpha1.InstanceReady); c.Status == condition.False &&
		(plan.Reason(c.Reason) == plan.ResolutionFailed || plan.Reason(c.Reason).IsError()) {
		return c.Reason, c.Message
	}
	return "", ""
}

// State is the engine's own word.
func (Graphs) State(s v1alpha1.InstanceState) v1alpha1.InstanceState { return s }

// LiveConditions turns a summary into the dialect's conditions. It drops all other conditions: they were the author's.
func (Graphs) LiveConditions(before condition.Set, desired plan.Desired, s plan.Summary, at Moment) condition.Set {
	set := slices.DeleteFunc(slices.Clone(before), func(c v1alpha1.Condition) bool { return !slices.Contains(ownConditions, c.Type) })
	mark := func(kind string, status bool, reason, message string) {
		c := v1alpha1.Condition{Type: kind, Status: condition.False, Reason: reason, Message: message}
		if status {
			c.Status = condition.True
		}
		set = at.Mark(set, c)
	}
	if s.InventoryProblem.Reason != "" {
		mark(v1alpha1.InstanceManaged, false, string(s.InventoryProblem.Reason), s.InventoryProblem.Message)
	} else {
		mark(v1alpha1.InstanceManaged, true, "Managed", "instance is properly managed with finalizers and labels")
	}
	if s.Unresolvable != "" {
		mark(v1alpha1.InstanceGraphResolved, false, string(plan.ResolutionFailed), s.Unresolvable)
	} else {
		mark(v1alpha1.InstanceGraphResolved, true, "Resolved", "runtime graph created and all resources resolved")
	}
	if s.Reason != "" {
		mark(v1alpha1.InstanceResourcesReady, false, string(s.Reason), s.Message)
	} else {
		mark(v1alpha1.InstanceResourcesReady, true, "AllResourcesReady", "all resources are created and ready")
	}
	set = set.Mark(set.Summarize(v1alpha1.InstanceReady, at.Generation,
		v1alpha1.InstanceManaged, v1alpha1.InstanceGraphResolved, v1alpha1.InstanceResourcesReady), at.Now)
	whileTrue := func(kind, reason, message string) {
		if message == "" {
			set = set.Remove(kind)
			return
		}
		mark(kind, true, reason, message)
	}
	whileTrue(v1alpha1.InstanceDrifted, DriftDetected, s.Drifted)
	return at.MarkProgress(set, ProgressOf(set, s, desired))
}

// ProgressOf returns the condition of the progress of an instance, in all dialects, from its other conditions.
func ProgressOf(set condition.Set, s plan.Summary, desired plan.Desired) condition.Progress {
	ready, _ := set.Get(v1alpha1.InstanceReady)
	if s.Stalled != "" {
		return condition.Stalled(string(plan.WaitTimeout), s.Stalled)
	}
	return condition.ProgressOf(ready, s.Unresolvable != "" || NeedsAction(s, desired))
}

// NeedsAction reports whether an instance is not ready for a reason that needs an action of a user. A failure that is
// retried, because it may be over then, does not.
func NeedsAction(s plan.Summary, desired plan.Desired) bool {
	retried := desired.Failure != nil && s.Reason == desired.Problem.Reason
	return s.InventoryProblem.Reason.IsError() || s.Reason.IsError() && !retried
}

// DriftDetected is the reason of a condition about fields that other managers have changed and
// that are left so.
const DriftDetected = "DriftDetected"

// DeletionConditions says that the instance and its resources aren't ready any more. Where the
// conditions are the author's, it changes only those that are there.
func (Graphs) DeletionConditions(set condition.Set, removal plan.Removal, at Moment) condition.Set {
	_, own := set.Get(v1alpha1.InstanceManaged)
	authors := len(set) > 0 && !own
	for _, kind := range []string{v1alpha1.InstanceResourcesReady, v1alpha1.InstanceReady} {
		if _, there := set.Get(kind); authors && !there {
			continue
		}
		set = at.Mark(set, v1alpha1.Condition{Type: kind, Status: condition.False, Reason: "Deleting", Message: plan.DeletionMessage(removal)})
	}
	return Stalled(set, removal, at)
}

// OverrideNotAllowed is the reason of a condition about annotations of an instance that its
// definition does not allow.
const OverrideNotAllowed = "OverrideNotAllowed"

// It is the same in all dialects.
func markIgnoredOverrides(set condition.Set, ignored string, at Moment) condition.Set {
	if ignored == "" {
		if c, _ := set.Get(v1alpha1.InstanceOverridesIgnored); c.Reason == OverrideNotAllowed {
			return set.Remove(v1alpha1.InstanceOverridesIgnored)
		}
		return set // a function may have set one
	}
	return at.Mark(set, v1alpha1.Condition{Type: v1alpha1.InstanceOverridesIgnored, Status: condition.True, Reason: OverrideNotAllowed, Message: ignored})
}

// DeletionTimeout is the reason of a deletion that takes longer than it should.
const DeletionTimeout = "DeletionTimeout"

// Stalled sets the condition of a deletion that takes longer than it should, in all dialects, and removes the condition
// of other progress.
func Stalled(set condition.Set, removal plan.Removal, at Moment) condition.Set {
	if !removal.Stalled {
		return at.MarkProgress(set, condition.Progress{})
	}
	return at.MarkProgress(set, condition.Stalled(DeletionTimeout, plan.DeletionMessage(removal)))
}
