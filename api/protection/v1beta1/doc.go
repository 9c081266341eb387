// Package v1beta1 holds protection.crossplane.io/v1beta1: usages, which protect an object from deletion while other
// objects use it.
//
// +kubebuilder:object:generate=true
// +groupName=protection.crossplane.io
package v1beta1

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 object crd:generateEmbeddedObjectMeta=false,maxDescLen=600 paths=. output:crd:dir=crds
