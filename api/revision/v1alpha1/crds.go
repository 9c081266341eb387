package v1alpha1

import "embed"

// CRDs holds the generated CustomResourceDefinitions of this package's kinds, a file for
// each.
//
//go:embed crds/*.yaml
var CRDs embed.FS
