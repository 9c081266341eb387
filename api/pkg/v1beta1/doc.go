// Package v1beta1 holds pkg.crossplane.io/v1beta1: the first version of functions, which are stored as v1 with the same fields, and the kinds
// that the other kinds of the group refer to.
//
// +kubebuilder:object:generate=true
// +groupName=pkg.crossplane.io
package v1beta1
