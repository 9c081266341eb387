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

// Dialect computes the conditions and references of composites.
type Dialect struct {
	// Layout is the layout of the composite kind.
	Layout xrd.Layout
}

// References are the objects that Crossplane created for the composite: its resourceRefs
// without a resource name (the objects carry it as an annotation), and its connection
// Secret, once it is published. While the composite is being deleted, a Secret without the
// engine's labels is left to the garbage collector.
func (d Dialect) References(composite *unstructured.Unstructured) []instance.Reference {
	var out []instance.Reference
	xr := xrd.NewInstance(composite, d.Layout)
	if ref, wanted := xr.ConnectionSecretRef(); wanted && ref.Namespace != "" && xr.LastPublished() != "" && composite.GetDeletionTimestamp() == nil {
		out = append(out, instance.Reference{Node: secretNode, Need: plan.Need{Kind: secretKind, Namespace: ref.Namespace, Name: ref.Name}})
	}
	for _, ref := range xr.ResourceRefs() {
		if ref.ResourceName != "" || ref.Name == "" {
			continue
		}
		namespace := ref.Namespace
		if d.Layout.Namespaced {
			namespace = composite.GetNamespace()
		}
		out = append(out, instance.Reference{Need: plan.Need{Kind: ref.GroupVersionKind(), Namespace: namespace, Name: ref.Name}})
	}
	return out
}

// Suspended is why the composite isn't reconciled: it is paused.
func (Dialect) Suspended(xr *unstructured.Unstructured) string { return Paused(xr) }

// Paused is the message for a composite or claim that is paused by the
// annotation crossplane.io/paused; "" if it isn't paused.
func Paused(o *unstructured.Unstructured) string {
	if o.GetAnnotations()[v1.PausedAnnotation] != "true" {
		return ""
	}
	if o.GetDeletionTimestamp() != nil {
		return "deletion waits: reconciliation is paused by the annotation " + v1.PausedAnnotation
	}
	return "reconciliation is paused by the annotation " + v1.PausedAnnotation
}

// SuspendedConditions sets Synced to False with the reason ReconcilePaused: nothing is in progress.
func (Dialect) SuspendedConditions(before condition.Set, why string, at instance.Moment) condition.Set {
	set := at.Mark(before, v1alpha1.Condition{Type: v1.TypeSynced, Status: condition.False, Reason: v1.ReasonReconcilePaused, Message: why})
	return at.MarkProgress(set, condition.Progress{})
}

// Problem is the composite's reconcile error, from Synced.
func (Dialect) Problem(set condition.Set) (reason, message string) {
	if c, _ := set.Get(v1.TypeSynced); c.Status == condition.False && c.Reason == v1.ReasonReconcileError {
		return c.Reason, c.Message
	}
	return "", ""
}

// State is empty: the dialect has no status.state.
func (Dialect) State(v1alpha1.InstanceState) v1alpha1.InstanceState { return "" }

// LiveConditions sets Synced and Ready, and the functions' conditions. While the desired
// state is unknown, Ready keeps its status; if it is not True, its message is the current error.
func (Dialect) LiveConditions(before condition.Set, desired plan.Desired, s plan.Summary, at instance.Moment) condition.Set {
	set := MarkSynced(before, s, at)
	current, ok := before.Get(v1.TypeReady)
	switch {
	case s.Unready != "" && !readyOverride(desired.Ready, true):
		set = at.Mark(set, UnreadyCondition("Unready resources: "+s.Unready))
	case readyOverride(desired.Ready, false):
		set = at.Mark(set, UnreadyCondition("a function of the pipeline set the composite unready"))
	case desired.Problem.Reason == "" && s.InventoryProblem.Reason == "":
		set = at.Mark(set, v1alpha1.Condition{Type: v1.TypeReady, Status: condition.True, Reason: v1.ReasonAvailable})
	case !ok && s.InventoryProblem.Reason != "":
		set = at.Mark(set, UnreadyCondition(s.InventoryProblem.Message))
	case !ok || current.Reason == v1.ReasonDeleting || current.Status != condition.True && desired.Problem.Reason.IsError():
		set = at.Mark(set, UnreadyCondition(desired.Problem.Message))
	}
	return MarkProgress(markAuthorConditions(set, desired, at), desired, s, at)
}

func readyOverride(by *bool, as bool) bool { return by != nil && *by == as }

// UnreadyCondition is the condition Ready of an object that isn't ready yet.
func UnreadyCondition(message string) v1alpha1.Condition {
	return v1alpha1.Condition{Type: v1.TypeReady, Status: condition.False, Reason: v1.ReasonCreating, Message: message}
}

// MarkSynced sets Synced: True if the desired state could be computed and applied, even if
// children aren't ready; those are not in its message either. It drops Responsive, which is about the watches of Crossplane.
func MarkSynced(set condition.Set, s plan.Summary, at instance.Moment) condition.Set {
	set = set.Remove(v1.TypeResponsive)
	c := v1alpha1.Condition{Type: v1.TypeSynced, Status: condition.True, Reason: v1.ReasonReconcileSuccess}
	switch {
	case s.InventoryProblem.Reason != "":
		c.Status, c.Reason, c.Message = condition.False, v1.ReasonReconcileError, s.InventoryProblem.Message
	case s.Failed != "":
		c.Status, c.Reason, c.Message = condition.False, v1.ReasonReconcileError, s.Failed
	}
	return at.Mark(set, c)
}

// MarkProgress sets or drops Reconciling and Stalled, which follow from Synced and Ready: they have the
// reason and message of one of them, and change only with it. Conditions of these types that the author
// sets stay.
func MarkProgress(set condition.Set, desired plan.Desired, s plan.Summary, at instance.Moment) condition.Set {
	for _, c := range desired.Conditions {
		if c.Type == v1alpha1.InstanceReconciling || c.Type == v1alpha1.InstanceStalled {
			return set
		}
	}
	synced, _ := set.Get(v1.TypeSynced)
	ready, _ := set.Get(v1.TypeReady)
	switch {
	case s.Stalled != "":
		return at.MarkProgress(set, condition.Stalled(string(plan.WaitTimeout), s.Stalled))
	case synced.Status != condition.True:
		return at.MarkProgress(set, condition.ProgressOf(synced, instance.NeedsAction(s, desired)))
	}
	return at.MarkProgress(set, condition.ProgressOf(ready, false))
}

// markAuthorConditions sets the functions' conditions. Conditions that no function sets any
// more are dropped; if the pipeline failed, they become Unknown.
func markAuthorConditions(set condition.Set, desired plan.Desired, at instance.Moment) condition.Set {
	var fromFunctions condition.Set
	for _, c := range desired.Conditions {
		fromFunctions = append(fromFunctions, c)
		set = at.Mark(set, c)
	}
	for _, c := range set {
		_, current := fromFunctions.Get(c.Type)
		switch {
		case current || IsSystemCondition(c):
		case desired.Problem.Reason == "":
			set = set.Remove(c.Type)
		case desired.Problem.Reason == plan.PipelineFailed:
			set = at.Mark(set, v1alpha1.Condition{
				Type: c.Type, Status: condition.Unknown, Reason: "FatalError",
				Message: "the pipeline failed before a function could set this condition",
			})
		}
	}
	return set
}

// IsSystemCondition reports whether a condition belongs to the engine and not to a function.
func IsSystemCondition(c v1alpha1.Condition) bool {
	switch c.Type {
	case v1.TypeReady, v1.TypeSynced, v1.TypeHealthy, v1.TypeResponsive:
		return true
	case v1alpha1.InstanceReconciling, v1alpha1.InstanceStalled:
		return true // MarkProgress drops a function's
	case v1alpha1.InstanceOverridesIgnored:
		return c.Reason == instance.OverrideNotAllowed
	}
	return false
}

// DeletionConditions sets the conditions of a composite that is being deleted, with what
// blocks the deletion.
func (Dialect) DeletionConditions(set condition.Set, removal plan.Removal, at instance.Moment) condition.Set {
	return MarkDeleting(set, removal, at)
}

// MarkDeleting sets the conditions of composites and claims that are being deleted.
func MarkDeleting(set condition.Set, removal plan.Removal, at instance.Moment) condition.Set {
	set = set.Remove(v1.TypeResponsive)
	set = at.Mark(set, v1alpha1.Condition{Type: v1.TypeReady, Status: condition.False, Reason: v1.ReasonDeleting, Message: plan.DeletionMessage(removal)})
	set = at.Mark(set, v1alpha1.Condition{Type: v1.TypeSynced, Status: condition.True, Reason: v1.ReasonReconcileSuccess})
	return instance.Stalled(set, removal, at)
}
