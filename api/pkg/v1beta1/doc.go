// Package v1beta1 holds pkg.crossplane.io/v1beta1, the first version of functions. They are stored as v1, with the same fields.
//
// +kubebuilder:object:generate=true
// +groupName=pkg.crossplane.io
package v1beta1
