package v1alpha1

import "embed"

// CRDs holds the generated CustomResourceDefinitions of this package's kinds, one YAML
// document a file.
//
//go:embed crds/*.yaml
var CRDs embed.FS
