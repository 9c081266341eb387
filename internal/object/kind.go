package object

import "k8s.io/kube-openapi/pkg/validation/spec"

// KindInfo describes a kind of the cluster.
type KindInfo struct {
	// Schema is the kind's schema; nil if the server has none.
	Schema     *spec.Schema
	Namespaced bool
	// ServedByDefinition says that a definition serves the kind.
	ServedByDefinition bool
	// NameRule is the rule for the names of its objects.
	NameRule NameRule
	// Revision changes whenever the schema may have.
	Revision string
	// NeverServed says that the API server has the kind's version and not the kind, and
	// will not get it, or that the kind exists in other versions only: all other fields are empty
	// then, except Siblings, the kinds of that version, and Versions, the apiVersions that have the
	// kind, the preferred one first.
	NeverServed bool
	Siblings    []string
	Versions    []string
}
