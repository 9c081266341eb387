// Package pkg holds the kinds of the group pkg.crossplane.io that compositions need, each
// version in a package of its own. All have the same fields.
package pkg

import "embed"

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 object crd:generateEmbeddedObjectMeta=false,maxDescLen=600 paths=./... output:crd:dir=crds

// CRDs holds the generated CustomResourceDefinitions of the kinds, one YAML document a
// file.
//
//go:embed crds/*.yaml
var CRDs embed.FS
