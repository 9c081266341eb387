// Package health tells from an object's own status whether it is ready.
//
// Pure: it decides from values alone.
package health

import (
	"fmt"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/condition"
)

// Health is whether an object is ready, and why not.
type Health struct {
	Ready   bool
	Message string
}

// Of computes an object's readiness by the rules of kstatus: its generation has
// been observed, and its conditions or the fields of its well-known kind say
// that it has arrived. Of some kinds their status says more, see kinds.
func Of(o *unstructured.Unstructured) Health {
	result, err := status.Compute(o)
	if err != nil {
		return Health{Message: fmt.Sprintf("its status can't be read: %v", err)}
	}
	if result.Status == status.CurrentStatus {
		if why, known := kinds[o.GroupVersionKind().GroupKind()]; known {
			message := why(o)
			return Health{Ready: message == "", Message: message}
		}
		return Health{Ready: true}
	}
	message := string(result.Status)
	if result.Message != "" {
		message += ": " + result.Message
	}
	return Health{Message: message}
}

// Said is what an object says of itself in its Ready condition.
type Said struct {
	Status          metav1.ConditionStatus
	Reason, Message string
	// Stale says that it tells of an older generation than the object has; it
	// tells of none where it doesn't say.
	Stale bool
	// Generation is the one that it tells of; 0 where it doesn't say.
	Generation int64
}

// Says reads what an object says of itself, if it has a Ready condition.
func Says(o *unstructured.Unstructured) (said Said, ok bool) {
	ready, ok := condition.Read(o).Get("Ready")
	if !ok {
		return Said{}, false
	}
	observed := ready.ObservedGeneration
	return Said{
		Status: ready.Status, Reason: ready.Reason, Message: ready.Message,
		Stale: observed != 0 && observed < o.GetGeneration(), Generation: observed,
	}, true
}

// Complaint is what a managed resource says is wrong with it, in its condition Synced:
// what its external resource waits for, as deep as anybody knows. It is empty while
// nothing is, and for objects that have no such condition.
func Complaint(o *unstructured.Unstructured) string {
	synced, ok := condition.Read(o).Get("Synced")
	if !ok || synced.Status != condition.False {
		return ""
	}
	if synced.Message == "" {
		return synced.Reason
	}
	return synced.Reason + ": " + synced.Message
}

// Instance tells whether an instance of a definition is ready: its Ready
// condition is true for its current generation. What it says while it isn't is
// the deepest cause that it knows.
func Instance(o *unstructured.Unstructured) Health {
	said, ok := Says(o)
	switch {
	case !ok:
		return byState(o)
	case said.Generation < o.GetGeneration():
		return Health{Message: fmt.Sprintf("its status tells of generation %d, it is at %d", said.Generation, o.GetGeneration())}
	case said.Status == condition.True:
		return Health{Ready: true}
	case said.Message != "":
		return Health{Message: said.Message}
	}
	return Health{Message: said.Reason}
}

// byState judges an instance whose author has conditions of his own and no Ready among
// them: it is ready when its state is ACTIVE, in a status of its current generation.
func byState(o *unstructured.Unstructured) Health {
	var observed int64
	for _, c := range condition.Read(o) {
		observed = max(observed, c.ObservedGeneration)
	}
	state, _, _ := unstructured.NestedString(o.Object, "status", "state")
	switch {
	case observed == 0:
		return Health{Message: "it has not been looked at yet"}
	case observed < o.GetGeneration():
		return Health{Message: fmt.Sprintf("its status tells of generation %d, it is at %d", observed, o.GetGeneration())}
	case state == "ACTIVE":
		return Health{Ready: true}
	}
	return Health{Message: "its state is " + state}
}

// Stale says whether the object's status tells of an older generation than its
// spec has, where the status tells a generation at all.
func Stale(o *unstructured.Unstructured) bool {
	observed := Observed(o)
	_, tells, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	return (tells || observed != 0) && observed < o.GetGeneration()
}

// Observed is the generation that the object's status tells of: the status's own, or else
// that of its Ready condition; 0 where neither says.
func Observed(o *unstructured.Unstructured) int64 {
	if observed, ok, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration"); ok {
		return observed
	}
	said, _ := Says(o)
	return said.Generation
}
