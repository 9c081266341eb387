package v1alpha1

import "embed"

// CRDs holds the generated CustomResourceDefinitions of this package's kinds, a file for each, without Graph's.
//
//go:embed crds/kro.run_resource*.yaml
var CRDs embed.FS

// GraphCRDs holds the CustomResourceDefinition of Graph.
//
//go:embed crds/kro.run_graphs.yaml
var GraphCRDs embed.FS
