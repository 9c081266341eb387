// Package v1 holds apiextensions.crossplane.io/v1: definitions of composite kinds,
// compositions and their revisions. It is the version that definitions are stored
// in, and in which the controllers read and write all of them.
//
// +kubebuilder:object:generate=true
// +groupName=apiextensions.crossplane.io
package v1
