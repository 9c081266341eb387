// Package v1 holds the kinds of pkg.crossplane.io/v1 that compositions need: functions
// and their revisions. Nothing is unpacked or deployed for them here; they say which
// function a name means, and where it is served.
//
// +kubebuilder:object:generate=true
// +groupName=pkg.crossplane.io
package v1

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 object crd:generateEmbeddedObjectMeta=false,maxDescLen=600 paths=. output:crd:dir=crds
