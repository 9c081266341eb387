// Package v2 holds apiextensions.crossplane.io/v2: definitions of composite kinds that
// are namespaced by default and have no claims.
//
// Definitions are stored as v1 and the API server converts them by changing
// apiVersion alone, so both versions have the same fields; their defaults and their
// validation differ.
//
// +kubebuilder:object:generate=true
// +groupName=apiextensions.crossplane.io
package v2
