package archive

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/report"
)

// StripButStatus is Strip for composites, claims, and all that they are composed of: what
// functions want follows from what they see. One that sees a bucket without its address
// wants no role for it, and the role would be deleted, or changed, before the bucket has
// told its address again.
func StripButStatus(o *unstructured.Unstructured) *unstructured.Unstructured { return strip(o, true) }

// firstGeneration is what the API server gives to what it creates.
const firstGeneration = int64(1)

// passingOn is the status of an object as its next incarnation has it: without what the
// engine says of the course of things, which begins anew, and told of the generation that
// the incarnation begins with, as far as it was told of the present one.
func passingOn(o *unstructured.Unstructured) map[string]any {
	was, _, _ := unstructured.NestedMap(o.Object, "status") // a copy
	for _, field := range []string{report.WaitingField, report.DeletionField, report.PruningField, report.ProblemsField} {
		delete(was, field)
	}
	renew := func(in map[string]any) {
		const field = "observedGeneration"
		if of, told := in[field].(int64); told && of == o.GetGeneration() {
			in[field] = firstGeneration
		} else if told {
			in[field] = int64(0)
		}
	}
	renew(was)
	conditions, _ := was[report.ConditionsField].([]any)
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok {
			renew(c)
		}
	}
	return was
}

// HasStatus says whether an object has told anything.
func HasStatus(o *unstructured.Unstructured) bool { return len(Status(o)) > 0 }

// Status is a copy of an object's status; nil if it has none.
func Status(o *unstructured.Unstructured) map[string]any {
	status, _ := o.Object["status"].(map[string]any)
	return maps.Clone(status)
}
