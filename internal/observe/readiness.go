package observe

import (
	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance/health"
)

// readiness is what an object's own status says. A Ready condition decides, as
// long as it tells of the current generation; anything else is judged by its
// health, if its status has something to judge.
func readiness(o *unstructured.Unstructured, instance bool) (ready Ready, reason, message string) {
	if said, ok := health.Says(o); ok && !said.Stale {
		switch said.Status {
		case condition.True:
			return True, said.Reason, ""
		case condition.False:
			return False, said.Reason, said.Message
		default:
			return Unknown, said.Reason, said.Message
		}
	}
	if instance {
		h := health.Instance(o)
		if h.Ready {
			return True, "", ""
		}
		return Unknown, "", h.Message
	}
	if !speaks(o) {
		return Unsaid, "", ""
	}
	if h := health.Of(o); !h.Ready {
		return False, "", h.Message
	}
	return True, "", ""
}

// speaks says whether an object's health can be told: its kind is a well-known
// one, or its status follows the conventions. Of other objects it is only known
// that they are there.
func speaks(o *unstructured.Unstructured) bool {
	if status.GetLegacyConditionsFn(o) != nil || len(condition.Read(o)) > 0 {
		return true
	}
	_, ok, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	return ok
}
