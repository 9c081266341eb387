package composite

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// Dialect is how composites say how they are.
type Dialect struct {
	// Places are where those of the kind do.
	Places xrd.Places
}

// Refers lists the objects that another implementation of the dialect has made: the
// composite refers to them without the names that they have in the composition, which
// they carry themselves; and its Secret, once somebody has written that. While the
// composite is being deleted a Secret without the engine's marks is left to the garbage
// collector.
func (d Dialect) References(composite *unstructured.Unstructured) []instance.Reference {
	var out []instance.Reference
	xr := xrd.At(composite, d.Places)
	if ref, wanted := xr.ConnectionSecret(); wanted && ref.Namespace != "" && xr.LastPublished() != "" && composite.GetDeletionTimestamp() == nil {
		out = append(out, instance.Reference{Node: secretNode, Need: plan.Need{Kind: secretKind, Namespace: ref.Namespace, Name: ref.Name}})
	}
	for _, ref := range xr.Composed() {
		if ref.ResourceName != "" || ref.Name == "" {
			continue
		}
		namespace := ref.Namespace
		if d.Places.Namespaced {
			namespace = composite.GetNamespace()
		}
		out = append(out, instance.Reference{Need: plan.Need{Kind: ref.GroupVersionKind(), Namespace: namespace, Name: ref.Name}})
	}
	return out
}

// Resting is a composite while it is paused.
func (Dialect) Suspended(xr *unstructured.Unstructured) string { return Paused(xr) }

// Paused says that somebody has asked for an object of the dialect to be left alone.
func Paused(o *unstructured.Unstructured) string {
	if o.GetAnnotations()[v1.PausedAnnotation] != "true" {
		return ""
	}
	if o.GetDeletionTimestamp() != nil {
		return "its deletion waits: reconciliation is paused by the annotation " + v1.PausedAnnotation
	}
	return "reconciliation is paused by the annotation " + v1.PausedAnnotation
}

// Rest says that it is paused.
func (Dialect) SuspendedConditions(before condition.Set, why string, at instance.Moment) condition.Set {
	return at.Mark(before, v1alpha1.Condition{Type: v1.TypeSynced, Status: condition.False, Reason: v1.ReasonReconcilePaused, Message: why})
}

// Trouble is why the composite couldn't be composed.
func (Dialect) Problem(set condition.Set) (reason, message string) {
	if c, _ := set.Get(v1.TypeSynced); c.Status == condition.False && c.Reason == v1.ReasonReconcileError {
		return c.Reason, c.Message
	}
	return "", ""
}

// State has no word in this dialect.
func (Dialect) State(v1alpha1.InstanceState) v1alpha1.InstanceState { return "" }

// Live says whether the composite could be composed, and whether what it is composed of is
// ready. While it isn't known what is wanted, it is as ready as it was.
func (Dialect) LiveConditions(before condition.Set, desired plan.Desired, s plan.Summary, at instance.Moment) condition.Set {
	set := Synced(before, s, at)
	said, ok := before.Get(v1.TypeReady)
	switch {
	case s.Unready != "" && !overruled(desired.Ready, true):
		set = at.Mark(set, Unready("Unready resources: "+s.Unready))
	case overruled(desired.Ready, false):
		set = at.Mark(set, Unready("a function of the pipeline says that the composite isn't ready"))
	case desired.Problem.Reason == "" && s.Unclaimed.Reason == "":
		set = at.Mark(set, v1alpha1.Condition{Type: v1.TypeReady, Status: condition.True, Reason: v1.ReasonAvailable})
	case !ok && s.Unclaimed.Reason != "":
		set = at.Mark(set, Unready(s.Unclaimed.Message))
	case !ok || said.Reason == v1.ReasonDeleting:
		set = at.Mark(set, Unready(desired.Problem.Message))
	}
	return authors(set, desired, at)
}

func overruled(by *bool, as bool) bool { return by != nil && *by == as }

// Unready is the condition of what isn't ready yet.
func Unready(message string) v1alpha1.Condition {
	return v1alpha1.Condition{Type: v1.TypeReady, Status: condition.False, Reason: v1.ReasonCreating, Message: message}
}

// Synced says whether what is wanted could be asked for. What was asked for and isn't
// ready is no failure. What another implementation said of its watches is no longer so.
func Synced(set condition.Set, s plan.Summary, at instance.Moment) condition.Set {
	set = set.Drop(v1.TypeResponsive)
	c := v1alpha1.Condition{Type: v1.TypeSynced, Status: condition.True, Reason: v1.ReasonReconcileSuccess}
	switch {
	case s.Unclaimed.Reason != "":
		c.Status, c.Reason, c.Message = condition.False, v1.ReasonReconcileError, s.Unclaimed.Message
	case s.Reason.IsError():
		c.Status, c.Reason, c.Message = condition.False, v1.ReasonReconcileError, s.Message
	case s.Failed != "":
		c.Status, c.Reason, c.Message = condition.False, v1.ReasonReconcileError, s.Failed
	}
	set = at.Mark(set, c)
	if s.Stalled == "" {
		return unstalled(set)
	}
	return at.Mark(set, v1alpha1.Condition{Type: v1alpha1.InstanceStalled, Status: condition.True, Reason: string(plan.WaitTimeout), Message: s.Stalled})
}

// unstalled takes the engine's word that something takes too long out of a set. Functions
// have conditions of that type as well.
func unstalled(set condition.Set) condition.Set {
	if c, _ := set.Get(v1alpha1.InstanceStalled); IsSystem(c) {
		return set.Drop(v1alpha1.InstanceStalled)
	}
	return set
}

// authors puts the functions' conditions into the set. Those that no function sets any
// more go; those that a failure has kept functions from setting are unknown.
func authors(set condition.Set, desired plan.Desired, at instance.Moment) condition.Set {
	var mine condition.Set
	for _, c := range desired.Conditions {
		mine = append(mine, c)
		set = at.Mark(set, c)
	}
	for _, c := range set {
		_, said := mine.Get(c.Type)
		switch {
		case said || IsSystem(c):
		case desired.Problem.Reason == "":
			set = set.Drop(c.Type)
		case desired.Problem.Reason == plan.PipelineFailed:
			set = at.Mark(set, v1alpha1.Condition{
				Type: c.Type, Status: condition.Unknown, Reason: "FatalError",
				Message: "the pipeline failed before a function could say how this is",
			})
		}
	}
	return set
}

// IsSystem says whether a condition is none that a function has set.
func IsSystem(c v1alpha1.Condition) bool {
	switch c.Type {
	case v1.TypeReady, v1.TypeSynced, v1.TypeHealthy, v1.TypeResponsive:
		return true
	case v1alpha1.InstanceStalled:
		return c.Reason == string(plan.WaitTimeout) || c.Reason == instance.DeletionTimeout
	}
	return false
}

// Leave says that the composite is going, and what holds it up.
func (Dialect) DeletionConditions(set condition.Set, removal plan.Removal, at instance.Moment) condition.Set {
	return Leave(set, removal, at)
}

// Leave is what composites and claims say while they are being deleted.
func Leave(set condition.Set, removal plan.Removal, at instance.Moment) condition.Set {
	set = set.Drop(v1.TypeResponsive)
	set = at.Mark(set, v1alpha1.Condition{Type: v1.TypeReady, Status: condition.False, Reason: v1.ReasonDeleting, Message: plan.DeletionMessage(removal)})
	set = at.Mark(set, v1alpha1.Condition{Type: v1.TypeSynced, Status: condition.True, Reason: v1.ReasonReconcileSuccess})
	return instance.Stalled(set, removal, at)
}
