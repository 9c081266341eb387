package archive

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/report"
)

// StripExceptStatus is Strip for composites, claims and composed resources: functions compute
// the desired resources from observed statuses. A function that reads a bucket without an
// address may return no role for it, and the role would be deleted before the bucket's status
// has the address again.
func StripExceptStatus(o *unstructured.Unstructured) *unstructured.Unstructured {
	return strip(o, true)
}

// firstGeneration is metadata.generation of an object that was just created.
const firstGeneration = int64(1)

// portableStatus returns the status for the object that an import creates: without the engine's
// fields of progress, which begin again, and with the first generation as observedGeneration if
// the current generation was observed.
func portableStatus(o *unstructured.Unstructured) map[string]any {
	if !HasStatus(o) {
		return nil
	}
	status, _, _ := unstructured.NestedMap(o.Object, "status") // a copy
	for _, field := range []string{report.WaitingField, report.DeletionField, report.PruningField, report.ProblemsField} {
		delete(status, field)
	}
	resetGeneration := func(in map[string]any) {
		const field = "observedGeneration"
		if observed, ok := in[field].(int64); ok && observed == o.GetGeneration() {
			in[field] = firstGeneration
		} else if ok {
			in[field] = int64(0)
		}
	}
	resetGeneration(status)
	conditions, _ := status[report.ConditionsField].([]any)
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok {
			resetGeneration(c)
		}
	}
	return status
}

// HasStatus reports whether an object has a status that is neither empty nor the default of new objects.
func HasStatus(o *unstructured.Unstructured) bool {
	status, _ := o.Object["status"].(map[string]any)
	observed, isSet := status[report.ObservedGenerationField].(int64)
	isDefault := len(status) == 1 && isSet && observed < 0
	return len(status) > 0 && !isDefault
}

// Status returns a copy of an object's status; nil if it has none.
func Status(o *unstructured.Unstructured) map[string]any {
	status, _ := o.Object["status"].(map[string]any)
	return maps.Clone(status)
}
