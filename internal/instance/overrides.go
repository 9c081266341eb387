package instance

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// The names are empty if there are none. OnDelete holds the deletion policies of nodes.
func (r *Reconciler) ignoredOverrides(s *subject, defaults inventory.Defaults, onDelete map[string]v1alpha1.DeletionPolicy) string {
	all := inventory.IgnoredOverrides(s.instance, defaults, onDelete, r.Definition)
	return diag.Truncate(strings.Join(all, "; "), maxIgnoredLength)
}

// maxIgnoredLength bounds the message about ignored annotations, in bytes.
const maxIgnoredLength = 1024

// A composite's are known from its nodes only.
func desiredPolicies(nodes []plan.Node) map[string]v1alpha1.DeletionPolicy {
	out := map[string]v1alpha1.DeletionPolicy{}
	for _, node := range nodes {
		if node.Collection == "" && node.OnDelete != "" {
			out[node.ID] = node.OnDelete
		}
	}
	return out
}

func recordedPolicies(children []*unstructured.Unstructured) map[string]v1alpha1.DeletionPolicy {
	out := map[string]v1alpha1.DeletionPolicy{}
	for _, child := range children {
		if at := inventory.PlaceOf(child); at.OnDelete != "" {
			out[at.Node] = at.OnDelete
		}
	}
	return out
}

// An event is recorded when annotations of an instance are ignored, and when the ignored ones change.
func (r *Reconciler) recordIgnoredOverrides(s *subject, previous, current condition.Set) {
	known, _ := previous.Get(v1alpha1.InstanceOverridesIgnored)
	ignored, _ := current.Get(v1alpha1.InstanceOverridesIgnored)
	if ignored.Reason == OverrideNotAllowed && ignored.Message != known.Message {
		r.Events.Event(s.instance, telemetry.Warning, OverrideNotAllowed, ignored.Message)
	}
}
