// Package v1alpha1 holds the kinds of the graph dialect, kro.run/v1alpha1:
// definitions of platform APIs as graphs of resources. Fields, names and defaults are kro's;
// the documentation of each addition of Espalier's says so.
//
// +kubebuilder:object:generate=true
// +groupName=kro.run
package v1alpha1

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 object crd:generateEmbeddedObjectMeta=false,maxDescLen=600 paths=. output:crd:dir=crds
//go:generate go run ./generate
