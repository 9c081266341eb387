// Package apiextensions holds the kinds of the composition dialect's group
// apiextensions.crossplane.io, each version in a package of its own. Fields, names,
// defaults and rules are those that the dialect's users already write.
package apiextensions

import "embed"

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 object crd:generateEmbeddedObjectMeta=false,maxDescLen=600 paths=./... output:crd:dir=crds

// Group is the group of the kinds.
const Group = "apiextensions.crossplane.io"

// CRDs holds the generated CustomResourceDefinitions of the kinds, one YAML document
// a file.
//
//go:embed crds/apiextensions.crossplane.io_[^m]*.yaml
var CRDs embed.FS

// ManagerCRDs holds those of the kinds that only the package manager serves.
//
//go:embed crds/apiextensions.crossplane.io_managed*.yaml
var ManagerCRDs embed.FS
