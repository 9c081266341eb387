package observe

import (
	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance/health"
)

// readiness is what an object's own status says. A Ready condition of the current generation
// decides; otherwise the object's health does, if its status allows to compute it.
func readiness(o *unstructured.Unstructured, instance bool) (ready Ready, reason, message string) {
	if ready, ok := health.ReadyConditionOf(o); ok && !ready.Stale {
		switch ready.Status {
		case condition.True:
			return True, ready.Reason, ""
		case condition.False:
			return False, ready.Reason, ready.Message
		default:
			return Unknown, ready.Reason, ready.Message
		}
	}
	if instance {
		h := health.Instance(o)
		if h.Ready {
			return True, "", ""
		}
		return Unknown, "", h.Message
	}
	if isUnseen(o) {
		return False, "", unseen
	}
	if !reportsHealth(o) {
		return NotReported, "", ""
	}
	if h := health.Of(o); !h.Ready {
		return False, "", h.Message
	}
	return True, "", ""
}

// reportsHealth reports whether an object's health can be computed: its kind is well known,
// or its status follows the conventions. Of other objects only their existence is known.
func reportsHealth(o *unstructured.Unstructured) bool {
	if status.GetLegacyConditionsFn(o) != nil || len(condition.Read(o)) > 0 {
		return true
	}
	_, ok, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	return ok
}
