// Package health computes from an object's own status whether it is ready.
// See docs/design/0003-waiting-readiness-and-statuses.md.
//
// Pure: it decides from values alone.
package health

import (
	"cmp"
	"fmt"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
)

// Health is whether an object is ready, and why not.
type Health struct {
	Ready   bool
	Message string
}

// NotReconciled ends the message of an object that no controller has reported on yet.
const NotReconciled = "it has not been reconciled yet"

// Of computes an object's readiness by the rules of kstatus: its generation has been observed,
// and its conditions, or the fields of its well-known kind, are complete. For some kinds more of
// the status counts, see reasonsByKind. A managed resource that is not synced is not ready while
// its Ready condition is of an older generation, nor before it has one: to kstatus, a missing
// condition is a good one.
func Of(o *unstructured.Unstructured) Health {
	if observed, ok, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration"); ok && observed < 0 && o.GetDeletionTimestamp() == nil {
		return Health{Message: string(status.InProgressStatus) + ": " + NotReconciled} // the default of our kinds
	}
	result, err := status.Compute(o)
	if err != nil {
		return Health{Message: fmt.Sprintf("its status can't be read: %v", err)}
	}
	if result.Status == status.CurrentStatus {
		if why, known := reasonsByKind[o.GroupVersionKind().GroupKind()]; known {
			message := why(o)
			return Health{Ready: message == "", Message: message}
		}
		if problem := SyncProblem(o); problem != "" {
			if ready, reported := ReadyConditionOf(o); !reported || ready.Stale {
				return Health{Message: string(status.InProgressStatus) + ": " + problem}
			}
		}
		return Health{Ready: true}
	}
	message := string(result.Status)
	if result.Message != "" {
		message += ": " + result.Message
	}
	return Health{Message: message}
}

// ReadyCondition is the Ready condition of an object.
type ReadyCondition struct {
	Status          metav1.ConditionStatus
	Reason, Message string
	// Stale says that it is of an older generation than the object's; false if it names no
	// generation.
	Stale bool
	// Generation is its observed generation; 0 if it names none.
	Generation int64
}

// ReadyConditionOf reads an object's Ready condition, if it has one.
func ReadyConditionOf(o *unstructured.Unstructured) (_ ReadyCondition, ok bool) {
	ready, ok := condition.Read(o).Get("Ready")
	if !ok {
		return ReadyCondition{}, false
	}
	observed := ready.ObservedGeneration
	return ReadyCondition{
		Status: ready.Status, Reason: ready.Reason, Message: ready.Message,
		Stale: observed != 0 && observed < o.GetGeneration(), Generation: observed,
	}, true
}

// Synced is the type of a managed resource's condition that reports whether its external resource is as desired.
const Synced = "Synced"

// SyncProblem is the problem in the condition Synced of a managed resource: what its external
// resource waits for. It is empty if there is none, and for objects without that condition.
func SyncProblem(o *unstructured.Unstructured) string {
	synced, ok := condition.Read(o).Get(Synced)
	if !ok || synced.Status != condition.False {
		return ""
	}
	return reasonAndMessage(synced)
}

func reasonAndMessage(c v1alpha1.Condition) string {
	if c.Message == "" {
		return c.Reason
	}
	return c.Reason + ": " + c.Message
}

// Instance computes the readiness of an instance of a definition: its Ready condition is true
// for its current generation. The message of one that isn't ready is the root cause that it
// reports.
func Instance(o *unstructured.Unstructured) Health {
	ready, ok := ReadyConditionOf(o)
	switch {
	case !ok:
		return byState(o)
	case ready.Generation < o.GetGeneration():
		return Health{Message: fmt.Sprintf("its status is of generation %d, not %d", ready.Generation, o.GetGeneration())}
	case ready.Status == condition.True:
		return Health{Ready: true}
	case ready.Message != "":
		return Health{Message: ready.Message}
	}
	return Health{Message: ready.Reason}
}

// The author of the instance's definition defines conditions without Ready: it is ready if its state is ACTIVE, in a
// status of its current generation.
func byState(o *unstructured.Unstructured) Health {
	var observed int64
	for _, c := range condition.Read(o) {
		observed = max(observed, c.ObservedGeneration)
	}
	state, _, _ := unstructured.NestedString(o.Object, "status", "state")
	switch {
	case observed == 0:
		return Health{Message: NotReconciled}
	case observed < o.GetGeneration():
		return Health{Message: fmt.Sprintf("its status is of generation %d, not %d", observed, o.GetGeneration())}
	case state == "ACTIVE":
		return Health{Ready: true}
	}
	return Health{Message: "its state is " + state}
}

// Stale reports whether the object's status has observed an older generation; false if it names none. A managed
// resource without its last change has observed the generation, and is Ready as of an older one.
func Stale(o *unstructured.Unstructured) bool {
	observed := Observed(o)
	_, ok := observedGeneration(o)
	return (ok || observed != 0) && observed < o.GetGeneration() || PendingChange(o) != ""
}

// PendingChange is what the condition Synced of a managed resource says, if its Ready condition is of an older
// generation than the object's and Synced is not true: later changes have not reached the external resource. It is
// empty for other objects.
func PendingChange(o *unstructured.Unstructured) string {
	ready, reported := ReadyConditionOf(o)
	synced, isManaged := condition.Read(o).Get(Synced)
	if !reported || !ready.Stale || !isManaged || synced.Status == condition.True {
		return ""
	}
	return cmp.Or(reasonAndMessage(synced), "it is not synced")
}

// There is none if it is negative, as it is by default before the first status.
func observedGeneration(o *unstructured.Unstructured) (observed int64, ok bool) {
	observed, ok, _ = unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	return observed, ok && observed >= 0
}

// Observed is the generation that the object's status has observed: the status's own, or else its Ready condition's; 0
// if neither names one.
func Observed(o *unstructured.Unstructured) int64 {
	if observed, ok := observedGeneration(o); ok {
		return observed
	}
	ready, _ := ReadyConditionOf(o)
	return ready.Generation
}
