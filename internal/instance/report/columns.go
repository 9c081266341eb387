package report

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// PrinterColumns are additional printer columns that show more of an instance than its
// dialect's: the progress of its deletion and, with -o wide, why it isn't ready. Fields says
// which fields the instance's status has.
func PrinterColumns(fields FieldSet) []apiextensionsv1.CustomResourceColumnDefinition {
	const ready = `.status.conditions[?(@.type=="Ready")]`
	var out []apiextensionsv1.CustomResourceColumnDefinition
	if fields.Deletion {
		out = append(out, apiextensionsv1.CustomResourceColumnDefinition{
			Name: "Removed", Type: "string", JSONPath: ".status." + DeletionField + ".progress",
			Description: "How many of its objects are removed, of how many, while it is being deleted",
		})
	}
	return append(out,
		apiextensionsv1.CustomResourceColumnDefinition{Name: "Reason", Type: "string", Priority: 1, JSONPath: ready + ".reason",
			Description: "Reason of the condition Ready"},
		apiextensionsv1.CustomResourceColumnDefinition{Name: "Message", Type: "string", Priority: 1, JSONPath: ready + ".message", Description: "Why it isn't ready"},
	)
}
