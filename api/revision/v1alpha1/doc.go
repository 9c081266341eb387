// Package v1alpha1 holds the kind of revisions of graph definitions, in the dialect's
// group.
//
// +kubebuilder:object:generate=true
// +groupName=internal.kro.run
package v1alpha1

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 object crd:generateEmbeddedObjectMeta=false,maxDescLen=600 paths=. output:crd:dir=crds
