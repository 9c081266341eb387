// Package v1alpha1 holds the kinds of the AWS provider's own API, aws.espalier.dev/v1alpha1. The kinds of
// managed resources have no Go types: they are made from the schemas of AWS's resource types.
//
// +kubebuilder:object:generate=true
// +groupName=aws.espalier.dev
package v1alpha1

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 object crd:generateEmbeddedObjectMeta=false,maxDescLen=600 paths=. output:crd:dir=crds
