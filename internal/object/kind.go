package object

import "k8s.io/kube-openapi/pkg/validation/spec"

// KindInfo is what the cluster says of a kind.
type KindInfo struct {
	// Schema is the kind's schema; nil if the server tells none.
	Schema     *spec.Schema
	Namespaced bool
	// Nested says that a definition serves the kind.
	Nested bool
	// Names is the rule for what its objects are called.
	Names NameRule
	// Revision changes whenever the schema may have.
	Revision string
	// Absent says that the API server has the kind's version and not the kind, and that it
	// gets none there: nothing else of it is known then. Siblings are the kinds that it has.
	Absent   bool
	Siblings []string
}
