// Package health tells from an object's own status whether it is ready.
package health

import (
	"fmt"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
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
// that it has arrived.
func Of(o *unstructured.Unstructured) Health {
	result, err := status.Compute(o)
	if err != nil {
		return Health{Message: fmt.Sprintf("its status can't be read: %v", err)}
	}
	if result.Status == status.CurrentStatus {
		return Health{Ready: true}
	}
	message := string(result.Status)
	if result.Message != "" {
		message += ": " + result.Message
	}
	return Health{Message: message}
}

// Instance tells whether an instance of a definition is ready: its Ready
// condition is true for its current generation. What it says while it isn't is
// the deepest cause that it knows.
func Instance(o *unstructured.Unstructured) Health {
	ready, ok := condition.Read(o).Get("Ready")
	switch {
	case !ok:
		return Health{Message: "it has not been looked at yet"}
	case ready.ObservedGeneration < o.GetGeneration():
		return Health{Message: fmt.Sprintf("its status tells of generation %d, it is at %d", ready.ObservedGeneration, o.GetGeneration())}
	case ready.Status == condition.True:
		return Health{Ready: true}
	case ready.Message != "":
		return Health{Message: ready.Message}
	}
	return Health{Message: ready.Reason}
}

// Stale says whether the object's status tells of an older generation than its
// spec has, where the status tells a generation at all.
func Stale(o *unstructured.Unstructured) bool {
	observed, ok, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	if ok {
		return observed < o.GetGeneration()
	}
	ready, ok := condition.Read(o).Get("Ready")
	return ok && ready.ObservedGeneration != 0 && ready.ObservedGeneration < o.GetGeneration()
}
