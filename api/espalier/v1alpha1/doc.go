// Package v1alpha1 holds Espalier's own kinds, espalier.dev/v1alpha1.
//
// +kubebuilder:object:generate=true
// +groupName=espalier.dev
package v1alpha1

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 object crd:generateEmbeddedObjectMeta=false,maxDescLen=600 paths=. output:crd:dir=crds
