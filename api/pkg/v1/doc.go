// Package v1 holds the kinds of pkg.crossplane.io/v1 that compositions need: functions
// and their revisions. Espalier does not unpack or deploy packages: the objects say which
// function a name refers to, and where it is served.
//
// +kubebuilder:object:generate=true
// +groupName=pkg.crossplane.io
package v1
