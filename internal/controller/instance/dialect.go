package instance

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/plan"
)

// Dialect is how the instances of a kind say how they are. Implementations are pure.
type Dialect interface {
	// Resting says why an instance is to be left alone, also when it is being deleted;
	// empty if it isn't.
	Resting(instance *unstructured.Unstructured) string
	// Rest, Live and Leave are an instance's conditions, given those that it had: while
	// it is left alone, while it lives, and while it is being deleted.
	Rest(before condition.Set, why string, at Moment) condition.Set
	Live(before condition.Set, desired plan.Desired, summary plan.Summary, at Moment) condition.Set
	Leave(before condition.Set, removal plan.Removal, at Moment) condition.Set
	// Trouble is what the conditions tell that somebody may have to act on; empty if that
	// is nothing.
	Trouble(condition.Set) (reason, message string)
	// Refers lists what an instance itself names as its own. Objects among it may be there
	// without the engine's marks, and say in the dialect's words whose they are: another
	// implementation of the dialect has made them.
	Refers(instance *unstructured.Unstructured) []Reference
	// State is the word for it in status.state; empty where the dialect has none.
	State(v1alpha1.InstanceState) v1alpha1.InstanceState
}

// Reference is an object that an instance names as its own. Node is that which it belongs
// to; empty where the object says so itself.
type Reference struct {
	plan.Need
	Node string
}

// Moment is when something is said, and of which generation of the instance.
type Moment struct {
	Now        time.Time
	Generation int64
}

// Mark puts a condition into a set.
func (m Moment) Mark(set condition.Set, c v1alpha1.Condition) condition.Set {
	c.ObservedGeneration = m.Generation
	return set.Mark(c, m.Now)
}

// Graphs is the dialect of definitions of graphs.
type Graphs struct{}

// Refers is nothing: children are found by their labels.
func (Graphs) Refers(*unstructured.Unstructured) []Reference { return nil }

// Trouble is why the instance isn't ready, if that doesn't pass by itself.
func (Graphs) Trouble(set condition.Set) (reason, message string) {
	if c, _ := set.Get(v1alpha1.InstanceReady); c.Status == condition.False && (plan.Reason(c.Reason) == plan.ResolutionFailed || plan.Reason(c.Reason).IsError()) {
		return c.Reason, c.Message
	}
	return "", ""
}

// State is as it is.
func (Graphs) State(s v1alpha1.InstanceState) v1alpha1.InstanceState { return s }

// Live turns a summary into the dialect's conditions, which are all that there are:
// others were the author's.
func (Graphs) Live(before condition.Set, _ plan.Desired, s plan.Summary, at Moment) condition.Set {
	set := slices.DeleteFunc(slices.Clone(before), func(c v1alpha1.Condition) bool { return !slices.Contains(ownConditions, c.Type) })
	mark := func(kind string, status bool, reason, message string) {
		c := v1alpha1.Condition{Type: kind, Status: condition.False, Reason: reason, Message: message}
		if status {
			c.Status = condition.True
		}
		set = at.Mark(set, c)
	}
	if s.Unclaimed.Reason != "" {
		mark(v1alpha1.InstanceManaged, false, string(s.Unclaimed.Reason), s.Unclaimed.Message)
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
			set = set.Drop(kind)
			return
		}
		mark(kind, true, reason, message)
	}
	whileTrue(v1alpha1.InstanceStalled, string(plan.WaitTimeout), s.Stalled)
	whileTrue(v1alpha1.InstanceDrifted, DriftDetected, s.Drifted)
	return set
}

// DriftDetected is the reason of a condition that tells of fields which others have
// changed and that are left so.
const DriftDetected = "DriftDetected"

// Leave says that the instance and its resources aren't ready any more. Where the
// conditions are the author's, it only says so of those.
func (Graphs) Leave(set condition.Set, removal plan.Removal, at Moment) condition.Set {
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

// DeletionTimeout is the reason of a deletion that takes longer than it should.
const DeletionTimeout = "DeletionTimeout"

// Stalled says of all dialects whether a deletion takes longer than it should.
func Stalled(set condition.Set, removal plan.Removal, at Moment) condition.Set {
	if !removal.Stalled {
		return set.Drop(v1alpha1.InstanceStalled)
	}
	return at.Mark(set, v1alpha1.Condition{
		Type: v1alpha1.InstanceStalled, Status: condition.True, Reason: DeletionTimeout, Message: plan.DeletionMessage(removal),
	})
}
