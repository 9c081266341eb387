// Package v1 holds the kinds of pkg.crossplane.io/v1 that compositions need: functions
// and their revisions. Nothing is unpacked or deployed for them here; they say which
// function a name means, and where it is served.
//
// +kubebuilder:object:generate=true
// +groupName=pkg.crossplane.io
package v1
