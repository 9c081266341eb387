// Package v1 holds apiextensions.crossplane.io/v1: definitions of composite kinds,
// compositions and their revisions. It is the version that definitions are stored
// in, so that a controller reads and writes all of them through it.
//
// +kubebuilder:object:generate=true
// +groupName=apiextensions.crossplane.io
package v1
