// Package v1alpha1 holds the kinds of ops.crossplane.io/v1alpha1: an Operation runs a pipeline of functions once, a CronOperation
// makes Operations at certain times, and a WatchOperation makes them for changes of objects.
//
// +kubebuilder:object:generate=true
// +groupName=ops.crossplane.io
package v1alpha1

import "embed"

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 object crd:generateEmbeddedObjectMeta=true,maxDescLen=600 paths=. output:crd:dir=crds

// CRDs holds the generated CustomResourceDefinitions; one YAML document a file.
//
//go:embed crds/*.yaml
var CRDs embed.FS
