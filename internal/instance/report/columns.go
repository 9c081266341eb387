package report

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// MoreColumns are columns of kubectl get that tell more of an instance than its dialect's
// do: how far its deletion has come, and, with -o wide, why it isn't ready. Room says which
// fields the instance's status has room for.
func MoreColumns(room Room) []apiextensionsv1.CustomResourceColumnDefinition {
	const ready = `.status.conditions[?(@.type=="Ready")]`
	var out []apiextensionsv1.CustomResourceColumnDefinition
	if room.Deletion {
		out = append(out, apiextensionsv1.CustomResourceColumnDefinition{
			Name: "Removed", Type: "string", JSONPath: ".status." + DeletionField + ".progress",
			Description: "How many of its objects are gone, of how many, while it is being deleted",
		})
	}
	return append(out,
		apiextensionsv1.CustomResourceColumnDefinition{Name: "Reason", Type: "string", Priority: 1, JSONPath: ready + ".reason", Description: "Why it isn't ready, in a word"},
		apiextensionsv1.CustomResourceColumnDefinition{Name: "Message", Type: "string", Priority: 1, JSONPath: ready + ".message", Description: "Why it isn't ready"},
	)
}
