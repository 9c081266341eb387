// Package v2 holds apiextensions.crossplane.io/v2: definitions of composite kinds that
// live in a namespace, unless they say otherwise, and can't be claimed.
//
// Definitions are stored as v1 and the API server converts them by changing
// apiVersion alone, so both versions have the same fields; what they take for granted
// and refuse is different.
//
// +kubebuilder:object:generate=true
// +groupName=apiextensions.crossplane.io
package v2
