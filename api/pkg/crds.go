// Package pkg holds the kinds of the group pkg.crossplane.io, each version in a package of its own. All versions of a kind have
// the same fields.
package pkg

import "embed"

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 object crd:generateEmbeddedObjectMeta=false,maxDescLen=600 paths=./v1 paths=./v1beta1 output:crd:dir=crds

// CRDs holds the generated CustomResourceDefinitions of the kinds that compositions need, functions and their revisions; one
// YAML document a file.
//
//go:embed crds/pkg.crossplane.io_function*.yaml
var CRDs embed.FS

// ManagerCRDs are the CustomResourceDefinitions of the kinds that only the package manager serves.
//
//go:embed crds/pkg.crossplane.io_[^f]*.yaml
var ManagerCRDs embed.FS
